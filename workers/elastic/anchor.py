"""The last state of a training that is known to be good, to go back to when a step fails half way."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn

from detol.errors import WorkerLost
from detol.workers.communication import Communication
from detol.workers.optim import Optimiser
from detol.workers.stepping.epoch import Position


class Mark(Protocol):
    """A point in the device's work, as ``torch.cuda.Event``."""

    def query(self) -> bool:
        """Return whether the device has come to it."""

    def synchronize(self) -> None:
        """Wait until it has."""


class _Now:
    """A point that is passed as soon as it is set: the CPU has done what it was told."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        return None


@dataclass
class _Kept:
    position: Position
    state: dict[str, Tensor]
    memory: dict[str, Tensor]
    mark: Mark


class Anchor:
    """Keeps the state before a step, of one rank of several.

    On the CPU a failed exchange is known before the optimiser moves: only the running statistics of batch norm have to
    be put back. A CUDA device works on behind the host's back: when the host learns that an exchange failed, the
    optimiser may have moved by gradients that never were. So weights, buffers and the optimiser's memory are kept there
    before each step, twice, and an older one is only overwritten once the device is known to have come to the newer:
    the host runs ahead by one step at most, and not at all into an epoch: the report of the one before it stands, so
    there is no going back behind that. Nor into the first step of a group: there is no older state yet. All is kept on
    the CPU too when the ``communication`` remembers something, which a failed exchange has changed.

    Args:
        model: the network.
        optimiser: its optimiser.
        communication: how gradients travel.
        also: further tensors that each step changes, by name.
        whole: whether all is kept; by default where it is needed.
        mark: sets a point in the device's work.
    """

    def __init__(
        self,
        model: nn.Module,
        optimiser: Optimiser,
        communication: Communication,
        *,
        also: Mapping[str, Tensor] | None = None,
        whole: bool | None = None,
        mark: Callable[[], Mark] | None = None,
    ) -> None:
        device = next((tensor.device for tensor in model.parameters()), torch.device("cpu"))
        behind = device.type == "cuda"
        self._optimiser, self._communication = optimiser, communication
        self._whole = behind or communication.remembers if whole is None else whole
        self._mark = mark or (_recorded if behind else _Now)
        # Found once: walking through the modules of a large network takes longer than to copy a small one.
        self._fixed = {f"buffer.{name}": tensor for name, tensor in model.named_buffers()}
        if self._whole:
            self._fixed |= {f"parameter.{name}": tensor for name, tensor in model.named_parameters()}
            self._fixed |= {f"also.{name}": tensor for name, tensor in (also or {}).items()}
        self._kept: deque[_Kept] = deque(maxlen=2 if behind or mark else 1)
        self._after: Mark | None = None
        self._good: tuple[bool, ...] | None = None
        self._guard = threading.Lock()

    def before(self, position: Position) -> None:
        """Keep the state before a step.

        Raises:
            WorkerLost: another thread has found out that the group is broken.
        """
        spare = self._spare()
        loss = None if position.loss is None else position.loss.clone()
        state = _copied(self._state(), spare.state if spare else {})
        remembers = self._whole and self._communication.remembers
        memory = _copied(self._communication.memory(self._optimiser), {}) if remembers else {}
        mark = self._mark()
        if position.step == 0 or not self._kept:
            mark.synchronize()
        with self._guard:
            self._check()
            self._kept.append(_Kept(replace(position, loss=loss), state, memory, mark))
            self._after = None

    def _spare(self) -> _Kept | None:
        """Take away the older of two states, once the device has come to the newer."""
        if len(self._kept) < (self._kept.maxlen or 0):
            return None
        self._kept[-1].mark.synchronize()
        with self._guard:
            self._check()
            return self._kept.popleft()

    def _check(self) -> None:
        if self._good is not None:
            raise WorkerLost("the group was broken off")

    def after(self) -> None:
        """Take note that the host has come to the end of the step."""
        self._after = self._mark()

    def freeze(self) -> None:
        """Note what the device has come to; called, by any thread, before calls that wait for a peer are broken off."""
        with self._guard:  # the training may be keeping a state meanwhile
            if self._good is None:
                # A device may come to the end of a step that was broken off; a host's step that ends is whole.
                done = self._after.query() if self._after is not None else not self._whole
                self._good = (*(kept.mark.query() for kept in self._kept), done)

    def recover(self, position: Position) -> Position:
        """Put the latest state back that is known to be good, and return where that is.

        Args:
            position: where the host thought it was.

        Raises:
            WorkerLost: there is no such state any more.
        """
        self.freeze()
        *good, done = self._good or ()
        kept = list(self._kept)
        self._kept.clear()
        if not kept or (self._after is not None and done):
            return position
        for held, passed in reversed(list(zip(kept, good, strict=False))):
            if passed:
                self._put_back(held)
                return held.position
        raise WorkerLost("no state is left that is known to be good")

    def thaw(self) -> None:
        """Begin anew in another group."""
        self._kept.clear()
        self._good = self._after = None

    def _state(self) -> dict[str, Tensor]:
        if not self._whole:
            return self._fixed
        return {**self._fixed, **{f"optimiser.{name}": tensor for name, tensor in self._optimiser.tensors().items()}}

    @torch.no_grad()
    def _put_back(self, held: _Kept) -> None:
        present = self._state()
        names = [name for name in held.state if name in present]
        for name in names:
            present[name].copy_(held.state[name])
        if self._whole and any(name not in held.state for name in present):
            # Before its first step an optimiser remembers nothing.
            prefix = "optimiser."
            mine = {n.removeprefix(prefix): tensor for n, tensor in held.state.items() if n.startswith(prefix)}
            self._optimiser.restore(mine)
        if self._whole and self._communication.remembers:
            self._communication.recall(held.memory, self._optimiser)


@torch.no_grad()
def _copied(state: dict[str, Tensor], spare: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return copies, in the tensors of ``spare`` where there are any."""
    alike: dict[torch.dtype, list[str]] = {}  # only tensors of one type are copied by one kernel for many
    for name, tensor in state.items():
        if name in spare:
            alike.setdefault(tensor.dtype, []).append(name)
    for names in alike.values():
        torch._foreach_copy_([spare[name] for name in names], [state[name] for name in names])
    return {name: spare[name] if name in spare else tensor.detach().clone() for name, tensor in state.items()}


def _recorded() -> Mark:
    mark = torch.cuda.Event()  # type: ignore[no-untyped-call,unused-ignore]
    mark.record()
    return mark
