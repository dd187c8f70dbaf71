"""The model of one training step at some width: computing, thin products, starting, communication, input.

Compute is the sum over layers of multiply-adds over a rate that falls for thin products; each rank holds b = B / n
samples. Communication is a ring all-reduce of each bucket of gradients, beside the backward pass as far as that lasts.
"""

from dataclasses import dataclass

from detol.graph.cost import FLOAT, Layer
from detol.scaling.link import ring_seconds
from detol.scaling.machine import Machine
from detol.scaling.rates import seconds as product_seconds
from detol.scaling.work import Work

COMPUTE, SKINNY, STARTING, COMMUNICATION, INPUT = "compute", "skinny products", "launches", "communication", "input"
PARTS = (COMPUTE, SKINNY, STARTING, COMMUNICATION, INPUT)
PASSES = 3
"""Products of a layer in a step: forwards, for the gradient of the weights, for that of the input."""


@dataclass(frozen=True, slots=True)
class Step:
    """The seconds of one step at a width, by what they go to; they add up to ``seconds``.

    Args:
        width: ranks.
        batch: samples of all ranks.
        local: samples of the rank that has most.
        compute: at the rate that a whole batch reaches on one rank.
        skinny: what thinner products take longer than that.
        starting: of layers, the optimiser and the step, as far as no computing hides it.
        communication: that the backward pass does not hide.
        input: of samples that computing does not hide.
    """

    width: int
    batch: int
    local: int
    compute: float
    skinny: float
    starting: float
    communication: float
    input: float

    @property
    def seconds(self) -> float:
        """Of the whole step."""
        return self.compute + self.skinny + self.starting + self.communication + self.input

    @property
    def parts(self) -> dict[str, float]:
        """Seconds by the names of what bounds a training (:data:`PARTS`)."""
        values = (self.compute, self.skinny, self.starting, self.communication, self.input)
        return dict(zip(PARTS, values, strict=True))

    @property
    def bound(self) -> str:
        """What most of the step goes to."""
        return max(self.parts, key=lambda name: self.parts[name])


def layer_seconds(machine: Machine, layer: Layer, samples: float, *, passes: int = PASSES) -> float:
    """Return the seconds that a layer computes for some samples, forwards and backwards, without starting it."""
    if layer.product:
        return passes * product_seconds(machine.rates, layer.product, samples, joined=machine.joined)
    if layer.params:
        return machine.norm_start + samples * layer.values * machine.norm
    return machine.free_start + samples * layer.values * machine.free


def step(
    work: Work,
    machine: Machine,
    batch: int,
    width: int,
    *,
    compression: float = 1.0,
    whole: int = 0,
    scale: float = 1.0,
) -> Step:
    """Return the step of a network at a width; ranks beyond one for each sample stand idle.

    Args:
        work: of the network.
        machine: where.
        batch: samples of all ranks together, >= 1.
        width: ranks, >= 1.
        compression: how many times fewer bytes are sent than the gradient has in 32 bit, > 0.
        whole: samples of one rank at which its products count as thick; by default the batch.
        scale: how many times longer this network computes than the model says, where that was measured.

    Raises:
        ValueError: a batch, a width or a compression that is not positive.
    """
    if batch < 1 or width < 1 or not compression > 0:
        raise ValueError(f"batch and width are >= 1, compression is > 0, got {batch}, {width}, {compression}")
    width = min(width, max(1, batch // work.least))
    local = -(-batch // width)
    crowd = scale * machine.slowdown(width)
    times = _layer_times(work, machine, local)
    thick = whole or batch
    compute = crowd * sum(_layer_times(work, machine, thick)) * local / thick
    skinny = max(0.0, crowd * sum(times) - compute)
    optimiser = crowd * machine.update * work.params
    starts = scale * machine.starts(len(work.layers), work.tensors, width)
    if machine.queued:  # what the device computes hides what the host starts
        starting = optimiser + max(0.0, starts - compute - skinny - optimiser)
    else:
        starting = optimiser + machine.slowdown(width) * starts
    sending = _exposed(work, machine, width, [crowd * t for t in times], compression)
    sending += machine.agree if width > 1 else 0.0
    busy = compute + skinny + starting + sending
    here = crowd * machine.sample * work.sample_values * local
    reading = batch * work.sample_bytes / machine.storage
    waiting = max(0.0, reading + here - busy) if machine.prefetch else reading + here
    return Step(width, batch, local, compute, skinny, starting, sending, waiting)


def _layer_times(work: Work, machine: Machine, samples: float) -> list[float]:
    times, first = [], True
    for layer in work.layers:
        passes = PASSES - 1 if first and layer.product else PASSES  # nobody asks for the gradient of the data
        first = first and layer.product is None
        times.append(layer_seconds(machine, layer, samples, passes=passes))
    return times


def _exposed(work: Work, machine: Machine, width: int, times: list[float], compression: float) -> float:
    """Return the seconds of communication that do not run beside the backward pass.

    A bucket is sent when the backward pass has come to its last layer and the one before it is sent. Two thirds of a
    layer's time are its backward pass.
    """
    if width <= 1:
        return 0.0
    link = machine.between(width)
    now, sent, serial = 0.0, 0.0, 0.0
    reached = len(work.layers)
    for size, index in work.buckets:
        now += sum(times[index:reached]) * (PASSES - 1) / PASSES
        reached = index
        one = ring_seconds(size / compression, width, link)
        sent, serial = max(sent, now) + one, serial + one
    now += sum(times[:reached]) * (PASSES - 1) / PASSES
    hidden = max(0.0, sent - now)
    return machine.overlap * hidden + (1 - machine.overlap) * serial


def sent_bytes(work: Work, width: int, compression: float = 1.0) -> float:
    """Return the bytes that each rank sends in a step: 2 (n - 1) / n of the gradient."""
    return 2 * (width - 1) / width * FLOAT * work.params / compression
