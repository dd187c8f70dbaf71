"""``train.py``: the recipe as a script a person would write, for the network in ``model.py``."""

from typing import TYPE_CHECKING

from detol.export import train_loop
from detol.search.recipe import Recipe

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset

_TOP = '''"""Train the network of model.py from scratch, as the search did.

    python train.py DATA.npz [--epochs {epochs}] [--seed {seed}] [--to retrained.safetensors]

DATA.npz holds x_train (n, {shape}) {dtype} and y_train (n,) {labels}, and if you like x_test and y_test.
`detol export ... --with-data` writes such a file.
"""

import argparse
import math
{imports}

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from model import {names}Network

EPOCHS = {epochs}
BATCH_SIZE = {batch_size}
LEARNING_RATE = {learning_rate}
WEIGHT_DECAY = {weight_decay}
{constants}'''

_START = '''def start(network: nn.Module) -> None:
    """Draw fresh weights as He et al. 2015; take the mean and deviation of the data from the trained ones."""
    for module in network.modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    trained = load_file(Path(__file__).with_name("weights.safetensors"))
    network.load_state_dict({name: trained[name] for name in ("mean", "std")}, strict=False)
'''

_RISE = """    rising = int(WARMUP * steps)
    if step < rising:
        return LEARNING_RATE * (step + 1) / rising
"""

_RISE_FROM_BASE = """    rising = int(WARMUP * steps)
    if step < rising:
        return BASE_RATE + (LEARNING_RATE - BASE_RATE) * (step + 1) / rising
"""

_SCHEDULES = {
    "cosine": (
        "warm up, then fall along a cosine to zero",
        "    done = (step - {rising}) / (steps - {rising})\n"
        "    return LEARNING_RATE * (1 + math.cos(math.pi * done)) / 2\n",
    ),
    "one_cycle": (
        "rise, then fall in a straight line to zero",
        "    return LEARNING_RATE * (1 - (step - {rising}) / (steps - {rising}))\n",
    ),
    "constant": ("stay as it is", "    return LEARNING_RATE\n"),
    "step": ("stay as it is within a stage", "    return LEARNING_RATE\n"),
    "grow_batch": ("stay as it is within a stage", "    return LEARNING_RATE\n"),
}

_FLIP = '''def flip(x: Tensor) -> Tensor:
    """Mirror each image left to right with probability 1/2."""
    mirrored = torch.rand(len(x), device=x.device)[:, None, None, None] < 0.5
    return torch.where(mirrored, x.flip(-1), x)
'''

_CROP = '''def crop(x: Tensor) -> Tensor:
    """Shift each image by up to an eighth of its size each way, zeros coming in."""
    height, width = x.shape[2:]
    tall, wide = max(1, height // 8), max(1, width // 8)
    padded = F.pad(x, (wide, wide, tall, tall))
    down = torch.randint(2 * tall + 1, (len(x),)).tolist()
    right = torch.randint(2 * wide + 1, (len(x),)).tolist()
    shifted = [one[:, d : d + height, r : r + width] for one, d, r in zip(padded, down, right)]
    return torch.stack(shifted)
'''

_SHIFT = '''def crop(x: Tensor) -> Tensor:
    """Shift each signal by up to an eighth of its length each way; the value at its end repeats."""
    length = x.shape[-1]
    most = max(1, length // 8)
    by = torch.randint(-most, most + 1, (len(x), 1))
    places = (torch.arange(length) + by).clamp(0, length - 1)
    return x.gather(2, places[:, None].expand_as(x))
'''

_EVALUATE = '''@torch.inference_mode()
def evaluate(network: nn.Module, x: Tensor, y: Tensor, device: str) -> float:
    """Return the {measure}."""
    network.eval()
    outputs = torch.cat([network(part.to(device)).cpu() for part in x.split(256)])
    return {score}
'''

_MAIN = '''def main() -> None:
    """Train, test, and save the weights."""
    parser = argparse.ArgumentParser(description="Train the network of model.py from scratch.")
    parser.add_argument("data", help="a .npz file with x_train, y_train (x_test, y_test)")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seed", type=int, default={seed})
    parser.add_argument("--to", default="retrained.safetensors", help="where the weights go")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = np.load(options.data)
    x_train, y_train = torch.from_numpy(data["x_train"]), torch.from_numpy(data["y_train"])

    network = Network()
    start(network)
    network.to(device)
    # Biases and the scales of norms are not decayed.
    parameters = list(network.parameters())
    groups = [
        {{"params": [p for p in parameters if p.ndim > 1], "weight_decay": WEIGHT_DECAY}},
        {{"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0{plain}}},
    ]
    optimiser = {optimiser}

{plan}
    step = 0
    for epoch in range(1, options.epochs + 1):
        network.train()
        total = 0.0
{loop}
        print(f"epoch {{epoch:3d}}  loss {{total / len(x_train):.4f}}", flush=True)

    if "x_test" in data:
        x_test, y_test = torch.from_numpy(data["x_test"]), torch.from_numpy(data["y_test"])
        print(f"test {measure} {{evaluate(network, x_test, y_test, device):.4f}}")
    save_file({{name: value.cpu().contiguous() for name, value in network.state_dict().items()}}, options.to)


if __name__ == "__main__":
    main()
'''


def train_source(recipe: Recipe, dataset: "Dataset", epochs: int, seed: int) -> str:
    """Return the text of ``train.py``.

    It trains by the same rules as detol (optimiser, decay, schedule, batches, augmentation, clipping, precision), with
    random numbers of its own: the curve is alike, not the same. It trains on one device, where ranks have nothing to
    exchange.

    Args:
        recipe: how to train.
        dataset: its shapes and task.
        epochs: of the schedule.
        seed: default of ``--seed``.
    """
    regression = dataset.task == "regression"
    names = [name for name in recipe.augment.split(",") if name]
    about, fall = _SCHEDULES[recipe.schedule]
    rising = "rising" if recipe.warmup else "0"
    parts = [
        _TOP.format(
            imports=train_loop.imports(recipe),
            epochs=epochs,
            seed=seed,
            shape=", ".join(map(str, dataset.shape)),
            dtype=dataset.train.x.dtype,
            labels="values in their own units" if regression else "class numbers",
            names="TARGET_MEAN, TARGET_STD, " if regression else "",
            batch_size=recipe.batch_size,
            learning_rate=recipe.peak,
            weight_decay=recipe.weight_decay,
            constants="\n".join(_constants(recipe, regression=regression)),
        ),
        _START,
        f'def learning_rate(step: int, steps: int) -> float:\n    """Return the rate of a step: {about}."""\n'
        + ((_RISE_FROM_BASE if recipe.base_batch else _RISE) if recipe.warmup else "")
        + fall.format(rising=rising),
        *train_loop.functions(recipe),
        *([_FLIP] if "flip" in names else []),
        *([_SHIFT if dataset.kind == "signal" else _CROP] if "crop" in names else []),
        _EVALUATE.format(
            measure="mean squared error" if regression else "accuracy",
            score="F.mse_loss(outputs, y.float()).item()"
            if regression
            else "(outputs.argmax(1) == y).float().mean().item()",
        ),
        _MAIN.format(
            seed=seed,
            optimiser=train_loop.optimiser(recipe),
            plain=', "adapted": False' if recipe.optimiser in ("lars", "lamb") else "",
            plan=train_loop.plan(recipe),
            loop=train_loop.loop(recipe, _augmented(names), _loss(recipe, regression=regression)),
            measure="mean squared error" if regression else "accuracy",
        ),
    ]
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n"


def _constants(recipe: Recipe, *, regression: bool) -> list[str]:
    found = []
    if recipe.warmup:
        found.append(f"WARMUP = {recipe.warmup}  # share of all steps")
    if recipe.optimiser in ("sgd", "lars"):
        found.append(f"MOMENTUM = {recipe.momentum}")
    if recipe.clip:
        found.append(f"CLIP = {recipe.clip}  # largest norm of the gradient")
    if recipe.label_smoothing and not regression:
        found.append(f"LABEL_SMOOTHING = {recipe.label_smoothing}")
    return found + train_loop.constants(recipe)


def _augmented(names: list[str]) -> str:
    text = "x_train[rows]"
    for name in names:
        text = f"{name}({text})"
    return f"{text}.to(device)"


def _loss(recipe: Recipe, *, regression: bool) -> str:
    if regression:
        return "F.mse_loss((output - TARGET_MEAN) / TARGET_STD, (y.float() - TARGET_MEAN) / TARGET_STD)"
    if recipe.label_smoothing:
        return "F.cross_entropy(output, y, label_smoothing=LABEL_SMOOTHING)"
    return "F.cross_entropy(output, y)"
