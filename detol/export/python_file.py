"""``model.py``: the network as a person would write it, in a file that needs torch and safetensors alone."""

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from detol.errors import DetolError
from detol.export.formats import Answer, Subject
from detol.export.source import network_source, renamed
from detol.export.torch_file import runner, write_weights
from detol.export.train_script import train_source

if TYPE_CHECKING:
    from detol.graph.topology import Topology
    from detol.workers.data.dataset import Dataset

MODULE = "model.py"
WEIGHTS = "weights.safetensors"

_HEAD = '''"""{title}

{about}
Needs torch, numpy and safetensors.

    from model import load
    network = load()                  # reads {weights} beside this file
    {call}
"""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn
'''

_EXCITE = '''class SqueezeExcite(nn.Module):
    """Scale each channel by a gate that is computed from the means of all channels."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.down = nn.Linear(channels, hidden)
        self.up = nn.Linear(hidden, channels)

    def forward(self, x: Tensor) -> Tensor:
        means = x.flatten(2).mean(2) if x.dim() > 2 else x
        gates = torch.sigmoid(self.up(F.relu(self.down(means))))
        return x * gates.reshape(*gates.shape, *(1 for _ in x.shape[2:]))
'''

_LOAD = '''def load(weights: str | Path = Path(__file__).with_name("{weights}")) -> Network:
    """Return the trained network, ready to predict."""
    network = Network()
    network.load_state_dict(load_file(weights))
    return network.eval()


def main() -> None:
    """Print what the network answers to the samples in a file: python model.py SAMPLES.npy."""
    network = load()
    if len(sys.argv) < 2:
        count = sum(parameter.numel() for parameter in network.parameters())
        print(f"{{count:,}} parameters; give samples of shape (n, {shape}): python model.py SAMPLES.npy")
        return
    samples = torch.from_numpy(np.load(sys.argv[1]))
    with torch.inference_mode():
        for answer in network(samples):
            {show}


if __name__ == "__main__":
    main()
'''


class Python:
    """``model.py``, its weights, and ``train.py``: none of them knows detol."""

    def write(self, subject: Subject, folder: Path) -> None:
        """Write ``model.py``, ``weights.safetensors``, and ``train.py`` where the recipe is known."""
        (folder / MODULE).write_text(subject.source[0], encoding="utf-8")
        write_weights(subject, folder)
        if subject.recipe is not None:
            text = train_source(subject.recipe, subject.dataset, subject.trial.epochs, subject.trial.seed)
            (folder / "train.py").write_text(text, encoding="utf-8")

    def load(self, folder: Path) -> Answer:
        """Run ``model.py`` and let it load its weights."""
        path = folder / MODULE
        return runner(execute(path.read_text(encoding="utf-8"), str(path))["load"]())

    def run_by(self) -> str:
        """Return the version of torch."""
        return f"torch {torch.__version__}"


class SourceError(DetolError):
    """Python source that does not take the weights of the network it was written for."""


def model_source(topology: "Topology", dataset: "Dataset", title: str) -> tuple[str, Any]:
    """Return the text of ``model.py``, and the layers by which :func:`state` names the weights.

    Raises:
        TopologyError: a kind of operation without source.
    """
    written = network_source(topology, dataset.shape, dataset.outputs)
    regression = dataset.task == "regression"
    shape = ", ".join(map(str, dataset.shape))
    answers = "values (n,) in the units of the target" if regression else f"logits (n, {dataset.outputs})"
    about = (
        f"Takes raw samples (n, {shape}), {dataset.validation.x.dtype}, as they are in the data set; standardises them "
        f"itself. Returns {answers}{'' if regression else ', one for each of CLASSES'}."
    )
    parts = [
        _HEAD.format(
            title=_clean(title),
            about=textwrap.fill(about, 100),
            weights=WEIGHTS,
            call="values = network(samples)" if regression else "classes = network(samples).argmax(1)",
        ).replace("" if written.excites else "import torch.nn.functional as F\n", ""),
        _constants(dataset),
        *([_EXCITE] if written.excites else []),
        *written.cells,
        _network(written.init, written.forward, dataset),
        _LOAD.format(
            weights=WEIGHTS,
            shape=shape,
            show="print(float(answer))" if regression else "print(CLASSES[int(answer.argmax())])",
        ),
    ]
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n", written.layers


def state(text: str, layers: Any, network: nn.Module, dataset: "Dataset") -> dict[str, Tensor]:
    """Return the weights of a built network by their names in ``model.py``, with mean and deviation of the data.

    Args:
        text: of ``model.py``; it is executed.
        layers: from :func:`model_source`.
        network: as ``build`` returns it, trained.
        dataset: its moments.

    Raises:
        SourceError: the text makes another network.
    """
    made = execute(text)["Network"]()
    there: Mapping[str, Tensor] = made.state_dict()
    by_layer: dict[str, list[str]] = {}
    for key in there:
        for layer in _prefixes(key):
            by_layer.setdefault(layer, []).append(key)
    try:
        names = renamed(network, layers, by_layer)  # type: ignore[arg-type]
        found = {names[key]: value.detach().clone().contiguous() for key, value in network.state_dict().items()}
        found |= {"mean": torch.from_numpy(dataset.mean.copy()), "std": torch.from_numpy(dataset.std.copy())}
        made.load_state_dict(found)
    except (ValueError, KeyError, RuntimeError) as error:
        raise SourceError(f"model.py is not the network that was trained: {str(error).splitlines()[0]}") from None
    return {key: found[key] for key in there}


def execute(text: str, path: str = "model.py") -> dict[str, Any]:
    """Run the text of a generated module and return its names; nothing is imported under its name or written."""
    names: dict[str, Any] = {"__name__": "detol_export", "__file__": path}
    exec(compile(text, path, "exec"), names)  # noqa: S102  our own text
    return names


def _prefixes(key: str) -> list[str]:
    parts = key.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _constants(dataset: "Dataset") -> str:
    if dataset.task == "regression":
        return f"TARGET_MEAN = {dataset.target_mean!r}\nTARGET_STD = {dataset.target_std!r}"
    one = f"CLASSES = {_tuple(dataset.classes)}"
    if len(one) <= 100:
        return one
    names = textwrap.wrap(", ".join(json.dumps(name, ensure_ascii=False) for name in dataset.classes), 94)
    return "\n".join(["CLASSES = (", *(f"    {line}" for line in names), ")"]) if _safe(dataset) else one


def _safe(dataset: "Dataset") -> bool:
    """Return whether class names may be wrapped between words: none holds a blank."""
    return not any(character.isspace() for name in dataset.classes for character in name)


def _tuple(names: tuple[str, ...]) -> str:
    return (
        "(" + ", ".join(json.dumps(name, ensure_ascii=False) for name in names) + ("," if len(names) == 1 else "") + ")"
    )


def _network(init: tuple[str, ...], forward: tuple[str, ...], dataset: "Dataset") -> str:
    shape = ", ".join(map(str, dataset.mean.shape)) + ("," if dataset.mean.ndim == 1 else "")
    regression = dataset.task == "regression"
    end = "return self.head(x).squeeze(1) * TARGET_STD + TARGET_MEAN" if regression else "return self.head(x)"
    lines = [
        "class Network(nn.Module):",
        f'    """The whole network: raw samples (n, {", ".join(map(str, dataset.shape))}) to '
        f'{"values (n,)" if regression else f"logits (n, {dataset.outputs})"}."""',
        "",
        "    mean: Tensor",
        "    std: Tensor",
        "",
        "    def __init__(self) -> None:",
        "        super().__init__()",
        "        # Of the training data; the values come with the weights.",
        f'        self.register_buffer("mean", torch.zeros({shape.rstrip(",")}))',
        f'        self.register_buffer("std", torch.ones({shape.rstrip(",")}))',
        *(f"        {line}" for line in init),
        "",
        "    def forward(self, x: Tensor) -> Tensor:",
        "        x = (x.float() - self.mean) / self.std",
        *(f"        {line}" for line in forward),
        f"        {end}",
    ]
    return "\n".join(lines)


def _clean(text: str) -> str:
    """Return text that may stand in a docstring."""
    return " ".join(text.split()).replace("\\", "/").replace('"""', "'''").rstrip('"')
