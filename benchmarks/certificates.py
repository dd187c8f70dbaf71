"""Certificates of five searches on different data, and their files run where detol is not installed.

Images (digits), signals (ElectricDevices), a classification table (LetterRecognition), a regression table (diabetes)
and a folder of images (CIFAR-10 as JPEG); where ``../shared/data`` is absent, signals, table and folder are made of
what scikit-learn brings. Each search is followed by ``detol export`` in all formats (onnx, torch, python, mlflow):
every file is read back and run on the whole validation and test splits.

Then ``model.py`` and ``model.onnx`` answer the test split in environments of their own (``python -m venv``) that hold
nothing but torch, numpy and safetensors, and numpy and onnxruntime: links to the distributions and what they depend
on. Their answers must agree to 1e-4 of the largest, and their scores with the certificate.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, conclude

SHARED = Path(os.environ.get("DETOL_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"
FORMATS = ("onnx", "torch", "python", "mlflow")

ANSWER = """
import sys, numpy as np
assert "detol" not in sys.modules
try:
    import detol
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("detol can be imported here")
folder, out = sys.argv[1:]
x = np.load(folder + "/data.npz")["x_test"]
{run}
np.save(out, answer)
"""
RUNS = {
    "model.py": (
        ("torch", "numpy", "safetensors"),
        "sys.path.insert(0, folder)\nimport torch\nfrom model import load\n"
        "with torch.inference_mode():\n    answer = load()(torch.from_numpy(x)).numpy()",
    ),
    "model.onnx": (
        ("numpy", "onnxruntime"),
        "import onnxruntime\nsession = onnxruntime.InferenceSession(folder + '/model.onnx')\n"
        "answer = session.run(None, {'x': x})[0]",
    ),
}


def clean(folder: Path, names: tuple[str, ...]) -> Path:
    """Make an environment that holds these distributions and what they need, by links; return its Python."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # of an extra, or for another system
        for file in found.files or ():
            top = packages / file.parts[0]
            if file.parts[0] != ".." and not top.exists():
                top.symlink_to(Path(str(found.locate_file(file.parts[0]))))
        needs = [one for one in found.requires or () if "extra ==" not in one]
        waiting += [re.split(r"[ ;<>=!~\[(]", one)[0] for one in needs]
    return folder / "bin" / "python"


def sets(folder: Path, *, quick: bool) -> dict[str, list[str]]:
    """Return the data of each search, as flags."""
    from sklearn.datasets import load_breast_cancer, load_digits

    found = {"images": ["--data", "digits"], "regression": ["--data", "diabetes"]}
    digits = load_digits()
    if (SHARED / "electric_devices.npz").exists():
        found["signals"] = ["--data", str(SHARED / "electric_devices.npz"), "--space", "signal"]
    else:  # each image row by row, as a series
        np.savez(folder / "series.npz", x=digits.data.astype(np.float32), y=digits.target)
        found["signals"] = ["--data", str(folder / "series.npz"), "--set", "data.kind=signal"]
    if (SHARED / "LetterRecognition.npz").exists():
        found["table"] = ["--data", str(SHARED / "LetterRecognition.npz"), "--space", "tabular"]
    else:
        bunch = load_breast_cancer()
        np.savez(folder / "table.npz", x=bunch.data.astype(np.float32), y=bunch.target)
        found["table"] = ["--data", str(folder / "table.npz"), "--set", "data.kind=features"]
    place = folder / "photos"
    if (SHARED / "cifar10_jpeg_full.npz").exists():
        unpack = [
            sys.executable,
            str(SHARED / "unpack.py"),
            "cifar10-folder",
            str(place),
            "--per-class",
            "60" if quick else "300",
        ]
        subprocess.run(unpack, check=True, stdout=subprocess.DEVNULL)
    else:
        from PIL import Image

        for number, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
            (place / str(label)).mkdir(parents=True, exist_ok=True)
            Image.fromarray((image * 15.9).astype(np.uint8)).save(place / str(label) / f"{number}.png")
    found["folder"] = ["--data", str(place)]
    return found


def detol(folder: Path, *words: str) -> Any:
    """Run a command of detol; return its JSON."""
    command = [sys.executable, "-m", "detol", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    if done.returncode:
        raise SystemExit(f"detol {' '.join(words)}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)


def score(answer: Any, target: Any) -> tuple[str, float]:
    """Return the name and value of the score of logits (n, classes) or values (n,)."""
    if answer.ndim == 1:
        return "mse", float(np.mean((answer.astype(np.float64) - target) ** 2))
    return "accuracy", float(np.mean(answer.argmax(1) == target))


def standalone(folder: Path, certificate: Any, pythons: dict[str, Path]) -> dict[str, Any]:
    """Run model.py and model.onnx where detol is not; return their scores and how far they are apart."""
    answers = {}
    for name, (_, run) in RUNS.items():
        out = folder.parent / f"{folder.name}-{name}.npy"
        command = [str(pythons[name]), "-I", "-c", ANSWER.format(run=run), str(folder), str(out)]
        subprocess.run(command, check=True, cwd="/")
        answers[name] = np.load(out)
    target = np.load(folder / "data.npz")["y_test"]
    first, second = answers.values()
    apart, largest = float(np.abs(first - second).max()), max(1.0, float(np.abs(first).max()))
    if apart > 1e-4 * largest:
        raise SystemExit(f"{folder.name}: model.py and model.onnx are {apart:.2g} apart")
    scores = {}
    for name, answer in answers.items():
        metric, value = score(answer, target)
        certified = certificate["network"]["test"][metric]
        if abs(value - certified) > 1e-3 * max(1.0, abs(certified)):
            raise SystemExit(f"{folder.name}: {name} scores {value}, the certificate says {certified}")
        scores[name] = value
    return {"apart": apart, "largest_output": largest, **scores}


def row(certificate: Any) -> dict[str, Any]:
    """Return what the table shows of a certificate."""
    (metric,) = certificate["network"]["validation"]
    shown: dict[str, Any] = {"task": certificate["data"]["task"], "params": certificate["cost"]["params"]}
    shown["multiply_adds"] = certificate["cost"]["multiply_adds"]
    shown["metric"] = metric
    shown["trained"] = {split: certificate["network"][split][metric] for split in certificate["network"]}
    for name, entry in certificate["formats"].items():
        shown[name] = {
            "validation": entry["validation"][metric],
            "test": entry["test"][metric],
            "max_difference": max(entry[split]["max_difference"] for split in certificate["network"]),
            "allowed": entry["validation"]["allowed"],
            "bytes": entry["bytes"],
            "median_ms": entry["latency"]["batch_1"]["median_ms"],
            "quartiles_ms": entry["latency"]["batch_1"]["quartiles_ms"],
        }
    return shown


def table(rows: dict[str, Any]) -> list[str]:
    """Return the certificates as a Markdown table."""
    lines = ["| data | metric | trained: val, test | format | val, test | largest difference | bytes | ms, 1 sample |"]
    lines.append("|---|---|--:|---|--:|--:|--:|--:|")
    for name, one in rows.items():
        trained = f"{one['trained']['validation']:.4f}, {one['trained']['test']:.4f}"
        for number, kind in enumerate(FORMATS):
            entry = one[kind]
            head = f"| {name} | {one['metric']} | {trained} " if number == 0 else "| | | "
            low, high = entry["quartiles_ms"]
            lines.append(
                f"{head}| {kind} | {entry['validation']:.4f}, {entry['test']:.4f} | {entry['max_difference']:.1e} of "
                f"{entry['allowed']:.1e} | {entry['bytes']:,} | {entry['median_ms']:.3g} ({low:.3g} to {high:.3g}) |"
            )
    return lines


def main() -> None:
    """Search, export, run again elsewhere, print the certificates."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--to", type=Path, help="keep the exports in this directory")
    parser.add_argument("--only", nargs="+", help="of images, signals, table, regression, folder; all by default")
    parser.add_argument("--trials", type=int, help="of each search")
    parser.add_argument("--epochs", type=int, help="of each trial")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="detol-"))
    exports = options.to.absolute() if options.to else folder / "exports"
    exports.mkdir(parents=True, exist_ok=True)
    trials, epochs = (3, 2) if options.quick else (20, 15)
    budget = ["--trials", str(options.trials or trials), "--epochs", str(options.epochs or epochs)]
    pythons = {name: clean(folder / f"venv-{name}", needs) for name, (needs, _) in RUNS.items()}
    figures: dict[str, Any] = {"benchmark": "certificates", "quick": options.quick, "budget": " ".join(budget)}
    rows: dict[str, Any] = {}
    for name, flags in sets(folder, quick=options.quick).items():
        if options.only and name not in options.only:
            continue
        common = ["--executor", "inline", "--tracking", "off", "--db", str(folder / "results.db"), "--name", name]
        few = ["--set", "data.limit=600"] if options.quick and name in ("signals", "table") else []
        detol(folder, "search", *flags, *budget, *few, *common)
        place = exports / name
        words = ["--to", str(place), "--with-data", "--db", str(folder / "results.db")]
        certificate = detol(folder, "export", name, "--format", ",".join(FORMATS), *words)
        rows[name] = {**row(certificate), "standalone": standalone(place, certificate, pythons)}
        print(name, json.dumps(rows[name]), flush=True)
    print("\n".join(table(rows)))
    conclude({**figures, "certificates": rows}, options.json)


if __name__ == "__main__":
    main()
