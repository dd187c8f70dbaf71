"""What people do without detol: Optuna (TPE and Hyperband) around a PyTorch loop written by hand.

Searches depth, widths, kernels, pooling, dropout, learning rate, weight decay and batch size. Processes share a study
through a journal file. Nothing of detol is used but the arrays it is given.
"""

import json
import multiprocessing
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import torch
from numpy.typing import NDArray
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from torch import Tensor, nn
from torch.nn import functional

EPOCHS = 27
"""Of a training to its end: three Hyperband rungs of a reduction by 3 lie below it."""

Arrays = Mapping[str, NDArray[Any]]
CONV = {2: nn.Conv1d, 3: nn.Conv2d}
NORM = {2: nn.BatchNorm1d, 3: nn.BatchNorm2d}
POOL = {(2, "max"): nn.MaxPool1d, (2, "avg"): nn.AvgPool1d, (3, "max"): nn.MaxPool2d, (3, "avg"): nn.AvgPool2d}


def suggest(trial: optuna.Trial, axes: int) -> dict[str, Any]:
    """Return the network's and the loop's settings; ``axes`` of a sample: 1 features, 2 a signal, 3 an image."""
    features = axes == 1
    depth = trial.suggest_int("depth", 1, 5 if features else 4)
    widths = [16, 32, 64, 128, 256, 512] if features else [8, 16, 32, 64, 128]
    chosen: dict[str, Any] = {
        "widths": [trial.suggest_categorical(f"width_{layer}", widths) for layer in range(depth)],
        "dropout": trial.suggest_float("dropout", 0.0, 0.5),
        "rate": trial.suggest_float("rate", 1e-4, 3e-2, log=True),
        "decay": trial.suggest_float("decay", 1e-6, 1e-1, log=True),
        "batch": trial.suggest_categorical("batch", [32, 64, 128, 256]),
    }
    if not features:
        chosen["kernels"] = [trial.suggest_categorical(f"kernel_{layer}", [3, 5, 7]) for layer in range(depth)]
        chosen["pooling"] = trial.suggest_categorical("pooling", ["max", "avg"])
    return chosen


def network(chosen: Mapping[str, Any], shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return a perceptron, or convolutions each with batch norm and pooling, and a linear layer on their mean."""
    layers: list[nn.Module] = []
    width = shape[0]
    if len(shape) == 1:
        for wide in chosen["widths"]:
            layers += [nn.Linear(width, wide), nn.BatchNorm1d(wide), nn.ReLU(), nn.Dropout(chosen["dropout"])]
            width = wide
        return nn.Sequential(*layers, nn.Linear(width, classes))
    axes, size = len(shape), min(shape[1:])
    for wide, kernel in zip(chosen["widths"], chosen["kernels"], strict=True):
        layers += [CONV[axes](width, wide, kernel, padding=kernel // 2, bias=False), NORM[axes](wide), nn.ReLU()]
        if size >= 4:
            layers.append(POOL[axes, chosen["pooling"]](2))
            size //= 2
        width = wide
    pool = nn.AdaptiveAvgPool1d(1) if axes == 2 else nn.AdaptiveAvgPool2d(1)
    return nn.Sequential(*layers, pool, nn.Flatten(), nn.Dropout(chosen["dropout"]), nn.Linear(width, classes))


def train(
    chosen: Mapping[str, Any], x: Tensor, y: Tensor, classes: int, epochs: int, seed: int
) -> Iterator[tuple[int, nn.Module]]:
    """Train with AdamW and a cosine schedule, yielding the model after each epoch."""
    torch.manual_seed(seed)
    model = network(chosen, tuple(x.shape[1:]), classes)
    optimiser = torch.optim.AdamW(model.parameters(), lr=chosen["rate"], weight_decay=chosen["decay"])
    batch = chosen["batch"]
    steps = epochs * (len(x) // batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for epoch in range(1, epochs + 1):
        model.train()
        order = torch.randperm(len(x))
        for start in range(0, len(x) - batch + 1, batch):
            rows = order[start : start + batch]
            optimiser.zero_grad()
            functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimiser.step()
            schedule.step()
        yield epoch, model


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Return the share of right answers."""
    model.eval()
    right = sum(int((model(a).argmax(1) == b).sum()) for a, b in zip(x.split(256), y.split(256), strict=True))
    return right / len(y)


def tensors(arrays: Arrays, *splits: str) -> tuple[Tensor, Tensor]:
    """Return standardised samples and labels of splits, joined."""
    x = np.concatenate([arrays[f"x_{split}"] for split in splits]).astype(np.float32)
    y = np.concatenate([arrays[f"y_{split}"] for split in splits])
    return torch.from_numpy((x - arrays["mean"]) / arrays["std"]), torch.from_numpy(y)


def worker(file: str, journal: str, seconds: float, seed: int) -> None:
    """Search in this process until the time is over."""
    began = time.monotonic()
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with np.load(file) as loaded:
        arrays = dict(loaded)
    (x, y), validation = tensors(arrays, "train"), tensors(arrays, "validation")
    classes = int(arrays["y_train"].max()) + 1

    def objective(trial: optuna.Trial) -> float:
        chosen = suggest(trial, x.ndim - 1)
        trial.set_user_attr("chosen", chosen)
        score = 0.0
        for epoch, model in train(chosen, x, y, classes, EPOCHS, trial.number):
            score = accuracy(model, *validation)
            trial.report(score, epoch)
            if epoch < EPOCHS and trial.should_prune():
                raise optuna.TrialPruned
            if time.monotonic() - began > seconds:
                trial.set_user_attr("unfinished", 1)
                break
        return score

    study = optuna.create_study(
        study_name="loop",
        storage=JournalStorage(JournalFileBackend(journal)),
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.HyperbandPruner(min_resource=1, max_resource=EPOCHS, reduction_factor=3),
        direction="maximize",
        load_if_exists=True,
    )
    study.optimize(objective, timeout=seconds)


def search(file: Path, folder: Path, seconds: float, seed: int, processes: int = 2) -> dict[str, Any]:
    """Search with several processes; return the settings of the best trial, its score and counts."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal = str(folder / f"{file.stem}-{seed}.journal")
    began = time.monotonic()
    context = multiprocessing.get_context("spawn")
    running = [
        context.Process(target=worker, args=(str(file), journal, seconds, seed * 100 + number))
        for number in range(processes)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join()
    study = optuna.load_study(study_name="loop", storage=JournalStorage(JournalFileBackend(journal)))
    states = [trial.state.name for trial in study.trials]
    return {
        "chosen": study.best_trial.user_attrs["chosen"],
        "validation": study.best_value,
        "trials": len(states),
        "stopped": states.count("PRUNED"),
        "seconds": time.monotonic() - began,
    }


def retrain(file: Path, chosen: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Train the settings on train plus validation and return the test accuracy."""
    torch.set_num_threads(1)
    with np.load(file) as loaded:
        arrays = dict(loaded)
    began = time.monotonic()
    x, y = tensors(arrays, "train", "validation")
    *_, (_, model) = train(chosen, x, y, int(arrays["y_train"].max()) + 1, EPOCHS, seed)
    return {"test": accuracy(model, *tensors(arrays, "test")), "seconds": time.monotonic() - began}


def main() -> None:
    """``optuna_loop.py search FILE FOLDER SECONDS SEED`` or ``retrain FILE CHOSEN SEED``; prints one JSON object."""
    command, file, *rest = sys.argv[1:]
    if command == "search":
        print(json.dumps(search(Path(file), Path(rest[0]), float(rest[1]), int(rest[2]))))
    else:
        print(json.dumps(retrain(Path(file), json.loads(rest[0]), int(rest[1]))))


if __name__ == "__main__":
    main()
