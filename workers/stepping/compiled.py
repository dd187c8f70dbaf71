"""Compiled blocks, kept for the life of the worker and shared by all its candidates."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from types import FunctionType

import torch
from torch import Tensor

from detol.workers.outcome import one_line
from detol.workers.stepping.blocks import Function, Key, function

SHARE = 0.1
"""Of the worker's time that compilation may take, when nothing else is said."""
EXPECTED = 10.0
"""Seconds that the first block is expected to take, the start of the compiler included (7 to 11 on an H200 whose cores
were busy, torch 2.11); then the mean of those before it."""

Clock = Callable[[], float]


class Compiler:
    """Compiles blocks, each once.

    A block that cannot be compiled stays as it is: the reason is kept.

    Args:
        backend: of ``torch.compile``.
        clock: seconds, never falling.

    Attributes:
        made: compiled functions by key.
        failed: reasons by key.
        seconds: spent on compilation.
    """

    def __init__(self, backend: str = "inductor", clock: Clock = time.monotonic) -> None:
        self.made: dict[Key, Function] = {}
        self.failed: dict[Key, str] = {}
        self.seconds = 0.0
        self._seen: Counter[Key] = Counter()
        self._backend, self._clock, self._began = backend, clock, clock()

    def prepare(self, keys: Iterable[Key], count: int, device: torch.device, *, budget: bool) -> None:
        """Compile what a candidate needs and is not there yet.

        Args:
            keys: of its blocks.
            count: samples of its batches; others will do as well.
            device: of training.
            budget: whether only blocks that an earlier candidate had too are compiled, the most frequent first, as long
                as that takes less than :data:`SHARE` of this worker's time.
        """
        new = [key for key in dict.fromkeys(keys) if key not in self.made and key not in self.failed]
        if budget:
            new = sorted((key for key in new if self._seen[key]), key=lambda key: -self._seen[key])
        for key in new:
            if budget and self.seconds + self._expected() > SHARE * (self._clock() - self._began):
                break
            self._make(key, count, device)
        self._seen.update(set(keys))

    def _expected(self) -> float:
        done = len(self.made) + len(self.failed)
        return self.seconds / done if done else EXPECTED

    def _make(self, key: Key, count: int, device: torch.device) -> None:
        began = self._clock()
        try:
            compiled = _compiled(key, self._backend)
            _try(compiled, key, count, device)
            self.made[key] = compiled
        except Exception as error:  # whatever compilers raise: the block works without them
            self.failed[key] = one_line(f"{type(error).__name__}: {error}")
        self.seconds += self._clock() - began


def _compiled(key: Key, backend: str) -> Function:
    plain = function(key.specs, key.dtype)
    assert isinstance(plain, FunctionType)
    # The compiler keeps what it made with the code, and looks through all of it at each call: one code for each block.
    own = FunctionType(plain.__code__.replace(), plain.__globals__, plain.__name__, None, plain.__closure__)
    compiled: Function = torch.compile(own, backend=backend, fullgraph=True)

    def call(x: Tensor, *tensors: Tensor) -> Tensor:
        # Batches differ in size by one: one function for both.
        torch._dynamo.maybe_mark_dynamic(x, 0)
        return compiled(x, *tensors)

    return call


def _try(compiled: Function, key: Key, count: int, device: torch.device) -> None:
    """Call a block forwards and backwards as a step does: compilers work at the first call."""
    sample, strides = key.sample
    x = torch.empty_strided((count, *sample), strides, device=device, dtype=key.entering).normal_()
    x.requires_grad_(key.learns)
    tensors = _tensors(key, device)
    with torch.enable_grad(), torch.autocast(device.type, enabled=False):
        compiled(x, *tensors).float().sum().backward()  # type: ignore[no-untyped-call]


def _tensors(key: Key, device: torch.device) -> list[Tensor]:
    """Return tensors like those of the block: weights in its format, norms and their statistics in float32."""
    found: list[Tensor] = []
    for spec in key.specs:
        norm = spec[0] == "norm"
        for place in range(4 if norm else 1 + bool(spec[1]) if len(spec) > 1 else 0):
            shape, strides = key.shapes[len(found)]
            dtype = torch.float32 if norm else key.dtype
            tensor = torch.empty_strided(shape, strides, device=device, dtype=dtype).fill_(0.5)
            learns = not norm or place < 2
            # The networks' own parameters, and what is made of them in a short format.
            own = learns and dtype == torch.float32
            found.append(torch.nn.Parameter(tensor) if own else tensor.requires_grad_(learns))
    return found


_COMPILERS: dict[str, Compiler] = {}


def compiler(backend: str = "inductor") -> Compiler:
    """Return this worker's compiler."""
    return _COMPILERS.setdefault(backend, Compiler(backend))
