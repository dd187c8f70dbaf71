"""``README.md``: a short model card of an export, for whoever finds the folder."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detol.export.formats import FORMATS

_ABOUT = {
    "topology.json": "the topology as detol reads it",
    "topology.graphml": "the same as one plain graph, cells unfolded (networkx, Gephi, yEd)",
    "topology.svg": "a drawing",
    "topology.mmd": "a Mermaid flowchart",
    "preprocessing.json": "how rows of the source become samples",
    "samples.npy": "a few raw validation samples to try",
    "data.npz": "the data in the form that `train.py` reads",
    "certificate.json": "all figures of this page and more",
}


def card(certificate: Mapping[str, Any]) -> str:
    """Return the text for a certificate (as :func:`detol.export.writer.export` returns it)."""
    sections = [_head, _files, _evidence, _data, _recipe, _search, _limits]
    return "\n\n".join("\n".join(section(certificate)) for section in sections) + "\n"


def _head(found: Mapping[str, Any]) -> Iterator[str]:
    cost = found["cost"]
    yield f"# {_text(found['title']).rstrip('.')}"
    yield ""
    yield (
        f"{cost['params']:,} parameters, {cost['multiply_adds']:,} multiply-adds for one sample, "
        f"{cost['depth']} operations deep. Digest `{found['digest']}`."
    )
    yield ""
    yield "![topology](topology.svg)"


def _files(found: Mapping[str, Any]) -> Iterator[str]:
    yield "## Files"
    yield ""
    yield "| file | bytes | what |"
    yield "|---|--:|---|"
    said: set[str] = set()
    for name, entry in found["formats"].items():
        for file, about in FORMATS[name].files.items():
            size = sum(count for path, count in entry["files"].items() if path.split("/")[0] == file)
            if size and file not in said:
                said.add(file)
                yield f"| `{file}` | {size:,} | {about} |"
    for file, about in _ABOUT.items():
        if file in found["files"]:
            yield f"| `{file}` | {found['files'][file]:,} | {about} |"
    if "python" in found["formats"]:
        yield ""
        yield "```"
        yield "pip install torch numpy safetensors"
        yield "python model.py samples.npy"
        yield "```"


def _evidence(found: Mapping[str, Any]) -> Iterator[str]:
    reference = found["network"]
    (metric,) = reference["validation"]
    tested = "test" in reference
    yield "## Certificate"
    yield ""
    yield (
        "Each file was read back and run on the real data; answers and scores are those of the file, beside those of "
        f"the network as it was trained. Outputs may differ by {found['tolerance']:.0e} of the largest."
    )
    yield ""
    columns = ["", "largest difference", *(f"{metric}, {split}" for split in reference), "bytes", "ms, 1 sample"]
    yield f"| {' | '.join(columns)} |"
    yield f"|---|--:|--:|{'--:|' if tested else ''}--:|--:|"
    row = f"| trained network | | {reference['validation'][metric]:.4f} |"
    yield row + (f" {reference['test'][metric]:.4f} |" if tested else "") + " | |"
    for name, entry in found["formats"].items():
        time = entry["latency"]["batch_1"]
        low, high = time["quartiles_ms"]
        worst = max(entry[split]["max_difference"] for split in reference)
        yield (
            f"| {name} ({entry['run_by']}) | {worst:.1e} | {entry['validation'][metric]:.4f} |"
            + (f" {entry['test'][metric]:.4f} |" if tested else "")
            + f" {entry['bytes']:,} | {time['median_ms']:.3g} ({low:.3g} to {high:.3g}) |"
        )
    yield ""
    device = found["device"]
    yield f"Times: median and quartiles on one thread of {device['processor']} ({device['cores']} cores)."
    yield from _recorded(found)
    yield from _retrained(found)


def _recorded(found: Mapping[str, Any]) -> Iterator[str]:
    score = found["score"]
    if score is None:
        return
    yield ""
    again = (
        " The weights had not been kept: the network was trained again, which need not give the same score."
        if score["trained_again"]
        else ""
    )
    yield (
        f"The search recorded {score['metric']} {score['recorded']:.4f} and these weights score "
        f"{score['recomputed']:.4f} ({score['samples']:,} samples).{again}"
    )


def _retrained(found: Mapping[str, Any]) -> Iterator[str]:
    retrained = found.get("retrained")
    if not retrained:
        return
    yield ""
    count = len(retrained["seeds"])
    spread = f" with a standard deviation of {retrained['std']:.4f}" if count > 1 else ""
    yield (
        f"Trained from scratch on train plus validation with {count} seed{'s' if count > 1 else ''}: "
        f"{retrained['metric']} {retrained['mean']:.4f} on average{spread} "
        f"({retrained['min']:.4f} to {retrained['max']:.4f})."
    )


def _data(found: Mapping[str, Any]) -> Iterator[str]:
    data = found["data"]
    shape = " x ".join(map(str, data["shape"]))
    splits = ", ".join(f"{count:,} {name}" for name, count in data["splits"].items())
    yield "## Data"
    yield ""
    yield f"{_text(data['name'])}: {data['task']}, samples {shape} ({data['dtype']}); {splits}. `{data['digest']}`"
    yield ""
    if data["classes"]:
        shown = ", ".join(map(_text, data["classes"][:20]))
        more = f" ... ({len(data['classes'])} in all)" if len(data["classes"]) > 20 else ""
        yield f"Outputs are logits, in the order of the classes: {shown}{more}."
    else:
        yield "The output is a value in the units of the target."
    yield ""
    yield "Inputs are raw samples: mean and deviation of the training data are part of every file."
    if "preprocessing.json" in found["files"] and data["kind"] == "features":
        yield "How columns of the source become the features of a sample is written in `preprocessing.json`."


def _recipe(found: Mapping[str, Any]) -> Iterator[str]:
    recipe = found["recipe"]
    yield "## Training"
    yield ""
    trained = f"{found['epochs']} of {found['epochs_asked']} epochs, seed {found['seed']}, state {found['state']}"
    if not recipe:
        yield f"{trained}; the recipe is not known."
        return
    parts = [f"{name.replace('_', ' ')} {value}" for name, value in _used(recipe).items()]
    yield f"{trained}. {', '.join(parts)}. `{recipe['digest']}`"


def _used(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a recipe that this training went by."""
    idle: dict[str, Any] = {"communication": "plain", "accumulate": 1, "base_batch": 0, "augment": "", "averaging": 0.0}
    of = {
        "digest": False,
        "momentum": recipe["optimiser"] in ("sgd", "lars"),
        "nesterov": recipe["optimiser"] == "sgd",
        "step_factor": recipe["schedule"] in ("step", "grow_batch"),
        "max_batch": recipe["schedule"] == "grow_batch",
    }
    return {name: value for name, value in recipe.items() if of.get(name, True) and value != idle.get(name, "")}


def _search(found: Mapping[str, Any]) -> Iterator[str]:
    search: Mapping[str, Any] = found.get("search") or {}
    yield "## Search"
    yield ""
    facts = [f"{name} {_text(search[name])}" for name in ("space", "strategy", "stop", "objective") if search.get(name)]
    counts = [f"{search[name]:,} {name}" for name in ("trials", "trained", "reused", "stopped") if search.get(name)]
    told = [f"Trial {_text(found['trial'])}, origin {found['origin']}.", _sentence(facts), _sentence(counts)]
    yield " ".join(filter(None, told))
    if found.get("trained_as") and found["trained_as"] != found["trial"]:
        yield f"Its result was taken from {_text(found['trained_as'])}, the same network, recipe and data."
    yield ""
    yield "Decisions: " + (", ".join(f"{name}={value}" for name, value in found["decisions"].items()) or "none") + "."
    lineage: Sequence[Mapping[str, Any]] = found.get("lineage") or ()
    if len(lineage) > 1:
        yield ""
        yield "| generation | trial | origin | value | from |"
        yield "|--:|---|---|--:|---|"
        for line in lineage[:20]:
            value = "" if line["value"] is None else f"{line['value']:.4f}"
            parents = ", ".join(map(_text, line["parents"]))
            yield f"| {line['generation']} | {_text(line['trial'])} | {line['origin']} | {value} | {parents} |"


def _limits(found: Mapping[str, Any]) -> Iterator[str]:
    data = found["data"]
    rows = data["splits"].get("validation", 0)
    yield "## Limits"
    yield ""
    trials = (found.get("search") or {}).get("trials")
    chosen = f" out of {trials:,} trials" if trials else ""
    yield f"- Chosen{chosen} by {rows:,} validation samples, so its validation score is a little too good: " + (
        "the test score is the one to quote."
        if "test" in found["network"]
        else "there is no test split to tell how much."
    )
    yield f"- It answers for samples like those of {_text(data['name'])}; nothing warns of others."
    yield "- One training: another seed gives another network of the same topology" + (
        ", as the spread above shows."
        if (found.get("retrained") or {}).get("std")
        else " (`--retrain N` measures how much that matters)."
    )
    yield f"- Made by detol {found['versions'].get('detol', '')} on {found['exported'][:10]}; files were run with " + (
        ", ".join(sorted({entry["run_by"] for entry in found["formats"].values()})) + "."
    )


def _sentence(parts: Sequence[str]) -> str:
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _text(value: Any) -> str:
    """Return text that may stand in Markdown: no markup of its own."""
    text = " ".join(str(value).split())
    return "".join(f"\\{character}" if character in "\\`*_[]<>|#" else character for character in text)
