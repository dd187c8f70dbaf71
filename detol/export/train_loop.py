"""The parts of ``train.py`` that depend on the recipe: optimiser, stages of a schedule, the loop over batches."""

import inspect
from textwrap import dedent, indent

from detol.search.recipe import Recipe

_STAGE = {
    "step": '''def stage(epoch: int, epochs: int, count: int) -> tuple[int, float]:
    """Return the batch of an epoch and what its rates are multiplied with: they fall at the milestones."""
    passed = sum(epoch - 1 >= round(share * epochs, 9) for share in MILESTONES)
    return BATCH_SIZE, STEP_FACTOR**-passed
''',
    "grow_batch": '''def stage(epoch: int, epochs: int, count: int) -> tuple[int, float]:
    """Return the batch of an epoch, which grows at the milestones, and what its rates are multiplied with."""
    passed = sum(epoch - 1 >= round(share * epochs, 9) for share in MILESTONES)
    wanted = BATCH_SIZE * STEP_FACTOR**passed
    batch = min(round(wanted), max(BATCH_SIZE, {largest}))
    return batch, min(1.0, batch / wanted)
''',
}

_PATH = "from pathlib import Path"
_ABSTRACT = "from abc import abstractmethod\nfrom collections.abc import Callable, Iterable, Sequence"
_LARGE = f"{_ABSTRACT}\n{_PATH}\nfrom typing import Any"


def imports(recipe: Recipe) -> str:
    """Return the lines that import names from the standard library."""
    return _LARGE if recipe.optimiser in ("lars", "lamb") else _PATH


def functions(recipe: Recipe) -> list[str]:
    """Return the definitions that a recipe needs beyond the usual ones."""
    found = []
    if recipe.schedule in _STAGE:
        largest = str(recipe.max_batch) if recipe.max_batch else "count // 10"
        found.append(_STAGE[recipe.schedule].replace("{largest}", largest))
    if recipe.optimiser in ("lars", "lamb"):
        from detol.workers import large_batch
        from detol.workers.large_batch.trust import LayerWise, trust_ratios

        chosen = large_batch.Lars if recipe.optimiser == "lars" else large_batch.Lamb
        sources = "\n\n".join(inspect.getsource(part) for part in (LayerWise, trust_ratios, chosen))
        found.append(
            sources.replace("(Optimizer)", "(torch.optim.Optimizer)").replace("  # type: ignore[override]", "")
        )
    return found


def constants(recipe: Recipe) -> list[str]:
    """Return the lines of constants for what :func:`functions` and :func:`loop` say."""
    found = []
    if recipe.schedule in _STAGE:
        from detol.search.stages import MILESTONES

        found.append(f"MILESTONES = {MILESTONES}  # shares of all epochs")
        found.append(f"STEP_FACTOR = {recipe.step_factor}")
    if recipe.optimiser == "lars":
        from detol.workers.large_batch.lars import TRUST

        found.append(f"TRUST = {TRUST}")
    if recipe.base_batch:
        found.append(
            f"BASE_RATE = {recipe.learning_rate}  # of a batch of {recipe.base_batch}: the warm-up starts there"
        )
    if recipe.accumulate > 1:
        found.append(f"ACCUMULATE = {recipe.accumulate}  # parts of a batch, one after the other")
    if recipe.communication != "plain":
        found.append(
            f"# Where the search trained on several ranks they exchanged by {recipe.communication}; here is one."
        )
    return found


def optimiser(recipe: Recipe) -> str:
    """Return the call that makes the optimiser."""
    if recipe.optimiser == "adamw":
        return "torch.optim.AdamW(groups, lr=LEARNING_RATE)"
    if recipe.optimiser == "lamb":
        return "Lamb(groups, LEARNING_RATE)"
    if recipe.optimiser == "lars":
        return "Lars(groups, LEARNING_RATE, momentum=MOMENTUM)"
    nesterov = recipe.nesterov and recipe.momentum > 0
    return f"torch.optim.SGD(groups, lr=LEARNING_RATE, momentum=MOMENTUM, nesterov={nesterov})"


def plan(recipe: Recipe) -> str:
    """Return the lines that say how many batches there are, inside ``main``."""
    if recipe.schedule not in _STAGE:
        text = """
            batches = max(1, min(math.ceil(len(x_train) / BATCH_SIZE), len(x_train) // 2))
            steps = options.epochs * batches
        """
    else:
        text = """
            plan = [stage(epoch, options.epochs, len(x_train)) for epoch in range(1, options.epochs + 1)]
            batches = [max(1, min(math.ceil(len(x_train) / batch), len(x_train) // 2)) for batch, _ in plan]
            steps = sum(batches)
        """
    if recipe.precision == "float16":
        text += "    scaler = torch.amp.GradScaler(device)\n"
    return indent(dedent(text).strip("\n"), "    ")


def loop(recipe: Recipe, augmented: str, call: str) -> str:
    """Return the lines of one epoch's loop over its batches.

    Args:
        recipe: how to train.
        augmented: the expression of a batch's samples, of ``rows``.
        call: the expression of the loss, of ``output`` and ``y``.
    """
    staged, scaled, parts = recipe.schedule in _STAGE, recipe.precision == "float16", recipe.accumulate > 1
    found = [f"for rows in torch.randperm(len(x_train)).tensor_split(batches{'[epoch - 1]' if staged else ''}):"]
    forward = [f"x, y = {augmented}, y_train[rows].to(device)"]
    rate = [
        "for group in optimiser.param_groups:",
        f'    group["lr"] = {"plan[epoch - 1][1] * " if staged else ""}learning_rate(step, steps)',
    ]
    if recipe.precision == "float32":
        output = ["output = network(x)", f"loss = {call}"]
    else:
        output = [
            f"with torch.autocast(device, dtype=torch.{recipe.precision}):",
            "    output = network(x).float()",
            f"loss = {call}",
        ]
    scale = "scaler.scale({})" if scaled else "{}"
    if parts:
        found += [f"    {line}" for line in ("optimiser.zero_grad()", *rate)]
        found.append("    for part in rows.tensor_split(max(1, min(ACCUMULATE, len(rows) // 2))):")
        forward = [line.replace("[rows]", "[part]") for line in forward]
        backward = [
            scale.format("(loss * (len(part) / len(rows)))" if not scaled else "loss * (len(part) / len(rows))")
            + ".backward()",
            "total += loss.item() * len(part)",
        ]
        found += [f"        {line}" for line in (*forward, *output, *backward)]
    else:
        lines = (*forward, *rate, *output, "optimiser.zero_grad()", scale.format("loss") + ".backward()")
        found += [f"    {line}" for line in lines]
    after = []
    if recipe.clip:
        after += ["scaler.unscale_(optimiser)"] if scaled else []
        after.append("nn.utils.clip_grad_norm_(parameters, CLIP)")
    after += ["scaler.step(optimiser)", "scaler.update()"] if scaled else ["optimiser.step()"]
    after += [] if parts else ["total += loss.item() * len(rows)"]
    found += [f"    {line}" for line in (*after, "step += 1")]
    return indent("\n".join(found), "        ")
