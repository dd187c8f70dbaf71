"""Which kind of step a training takes."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, AdamW

from detol.workers.step_way import way
from detol.workers.stepping.base import Learner, Step
from detol.workers.stepping.eager import Eager


def choose(learner: Learner) -> Step:
    """Return the quickest kind of step that the training allows.

    Raises:
        UsageError: an unknown way in the environment (see :mod:`detol.workers.step_way`).
    """
    wanted = way()
    why = _eager(learner, wanted)
    if why:
        return Eager(learner, why=why, parts=learner.recipe.accumulate)
    from detol.workers.stepping.compiled import compiler
    from detol.workers.stepping.graph import Graph
    from detol.workers.stepping.recorder import CudaRecorder

    device, parts = learner.data.device, learner.recipe.accumulate
    recorder = CudaRecorder(device, trying=wanted == "compiled")
    if wanted == "graph":
        return Graph(learner, recorder, parts=parts)
    return Graph(learner, recorder, compiler(), budget=wanted == "auto", parts=parts)


def facts(step: Step, device: torch.device) -> dict[str, str | float]:
    """Return how steps were taken, for the record; nothing on a CPU, where there is one way alone."""
    if device.type == "cpu":
        return {}
    if isinstance(step, Eager) or step.why:
        return {"step": f"{step.kind}: {step.why}"}
    from detol.workers.stepping.graph import Graph

    if not isinstance(step, Graph):
        return {"step": step.kind}
    made, blocks = step.compiled
    told = f"{made} of {blocks} compiled"
    failed = {"blocks_failed": step.failure} if step.failure else {}
    return {"step": step.kind, "blocks": told, **failed, "setup_seconds": round(step.seconds, 3)}


def _eager(learner: Learner, wanted: str) -> str:
    """Return why a training cannot have its step in a CUDA graph; empty when it can."""
    device, optimiser = learner.data.device, learner.optimiser.inner
    if device.type != "cuda":
        return f"device {device.type} has no graphs"
    if wanted == "eager":
        return "asked for"
    if learner.group.width > 1:
        why = _several(learner)
        if why:
            return why
    if not isinstance(optimiser, SGD | AdamW):
        return f"optimiser {learner.recipe.optimiser} is not recorded"
    if learner.recomputed:
        return f"activations are recomputed: {learner.recomputed}"
    return ""


def _several(learner: Learner) -> str:
    """Return why the step of several ranks is not recorded; empty when it is."""
    called, width = learner.called, learner.group.width
    if not isinstance(called, DistributedDataParallel) or dist.get_backend(called.process_group) != "nccl":
        return f"{width} ranks exchange gradients through the host"
    if learner.recipe.communication != "plain" or learner.recipe.sync_norm:
        return f"{width} ranks exchange more than plain gradients"
    return ""
