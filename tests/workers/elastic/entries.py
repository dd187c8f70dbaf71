"""What the ranks in these tests run; loaded by their processes from this file."""

import os
import signal
from pathlib import Path

import torch

from detol.errors import WorkerLost
from detol.workers.elastic.connection import Connection


def end(group, signal_number=signal.SIGKILL):
    os.kill(os.getpid(), signal_number)


def sums(group, victim, how, times=6):
    """Sum over the ranks again and again; the victim ends in the middle. Survivors say what they see."""
    yield "up"
    for number in range(times):
        try:
            with group.guarded():
                if group.member == victim and number == times // 2:
                    end(group, how)
                found = group.total(torch.tensor([float(group.member), 1.0])).tolist()
        except WorkerLost as error:
            group.reform(error, number)
            with group.guarded():
                found = group.total(torch.tensor([float(group.member), 1.0])).tolist()
        yield (number, group.rank, group.width, found)
    yield group.lost


def hangs(group, victim):
    """One rank never comes back from its step, though it is alive."""
    import threading

    yield "up"
    group.agree([False])
    try:
        with group.guarded():
            if group.member == victim:
                threading.Event().wait()
            group.agree([False])
    except WorkerLost as error:
        group.reform(error, 1)
    yield (group.rank, group.width)


def breaks_off(group, pipe):
    """Rank 0 does not come to what the other waits in, but breaks the group off, and hears that the other is out."""
    yield "up"
    try:
        with group.guarded():
            if group.member == 0:
                group.break_off()
                with Path(pipe).open() as other:
                    raise WorkerLost(other.read())
            group.agree([False])
    except WorkerLost as error:
        if group.member == 1:
            with Path(pipe).open("w") as other:
                other.write("out")
        group.reform(error, 0)
    yield (group.rank, group.width)


def fails(group, victim):
    """One rank fails by itself: the others give up too."""
    yield "up"
    if group.member == victim:
        raise MemoryError("full")
    try:
        with group.guarded():
            group.agree([False])
    except WorkerLost as error:
        group.reform(error, 0)
    yield "went on"


def shares(group):
    """What collective calls give."""
    yield group.share(bytes([group.rank]) * 3, 1)
    yield group.share(b"", 0)
    yield group.meet([group.rank == 1, False], [1.5, float(group.rank)])


def trains(group, data, topology, recipe, epochs, deaths=(), device="cpu", way="auto"):
    """Train; each of ``deaths`` is (rank, where, epoch, step): before a step, within its backward pass, in validation.

    What it puts into the training's module holds the training until its process ends. Within a step that is recorded
    nothing is called. Yields the reports, then what it knows at its end.
    """
    import weakref

    import detol.workers.train as module
    from detol.workers.train import Training

    os.environ["DETOL_STEP"] = way
    if (group.rank, "start", 0, 0) in deaths:
        end(group)
    training = Training(topology, data, recipe, epochs=epochs, seed=3, group=group, device=device)
    mine = {(where, epoch, step) for rank, where, epoch, step in deaths if rank == getattr(group, "member", 0)}
    wrapped, wraps = weakref.ref(training._called), training._wrap_again
    freed = []

    def wrap_again():
        freed.append(wrapped() is None)
        wraps()

    training._wrap_again = wrap_again
    before = training._survival.before
    forward = module.forward

    def watched(position):
        before(position)
        if ("before", position.epoch, position.step) in mine:
            end(group)

    def gradient(_):
        position = training.position
        if ("backward", position.epoch, position.step) in mine:
            end(group)

    def validated(*arguments):
        if ("validation", training.position.epoch, training.position.step) in mine:
            end(group)
        return forward(*arguments)

    training._survival.before = watched
    next(training.model.parameters()).register_hook(gradient)
    module.forward = validated
    yield from training.reports()
    state = torch.cat([tensor.flatten().double() for tensor in training.model.state_dict().values()])
    yield {"lost": group.lost, "rank": group.rank, "width": group.width, "state": state.cpu().numpy(), "freed": freed}


def levels(group):
    """Ranks that differ by a step and a report meet again; yields what each goes on with."""
    from torch import nn

    from detol.search.recipe import Recipe
    from detol.search.records import Report
    from detol.workers.averaging import Average
    from detol.workers.communication import communicate
    from detol.workers.elastic.survival import Survival
    from detol.workers.optim import Optimiser
    from detol.workers.stepping.epoch import Position
    from detol.workers.stepping.scaling import LossScale

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    recipe = Recipe(optimiser="adamw")
    communication = communicate(model, recipe, group.width)
    average, scale = Average(model, 0.5), LossScale(torch.device("cpu"))
    survival = Survival(group, model, Optimiser(model, recipe), communication, average, scale)
    position, curve = Position(2), [Report(1, {"val_loss": 1.0}, 2.0)]
    for step in range(4 if group.rank == 1 else 3):
        survival.agree([False], position)
        survival.before(position)
        generator = torch.Generator().manual_seed(step)
        loss = model(torch.randn(5, 4, generator=generator)).square().sum()
        loss.backward()
        survival._optimiser.step(0.1)
        average.update(step + 1)
        scale.update(torch.tensor(float(step == 3)))
        position.advance(torch.tensor(1.0 + group.rank), 5)
        survival.after(position, torch.tensor(1.0 + group.rank), 5)
        if step == 2:
            survival.agree([False], position)
            if group.rank == 1:
                survival.agree = lambda *_: None  # the others do not come so far
    group.reform = lambda *_: None
    position, curve = survival.recover(
        WorkerLost("test"), position, curve, done=lambda position: position.step, wrap=lambda: None
    )
    memory = [tensor for _, tensor in sorted(survival._optimiser.tensors().items())]
    state = [*model.state_dict().values(), *memory, *average.tensors().values(), *scale.tensors]
    yield {
        "place": (position.epoch, position.step),
        "loss": float(position.loss),
        "samples": position.samples,
        "epochs": [report.epoch for report in curve],
        "state": torch.cat([tensor.flatten().double() for tensor in state]).numpy(),
        "mean": survival.mean(position, 35),
    }


def records(group, victim):
    """Something is recorded with the group's calls, and held; yields what it and the group's connections are told."""
    said, abort, close = [], Connection.abort, Connection.close
    Connection.abort = lambda link, *before: (said.append("aborted"), abort(link, *before))
    Connection.close = lambda link: (said.append("closed"), close(link))

    class Step:
        def let_go(self):
            said.append("let go")

    step = Step()
    group.recorded(step)
    group.rest()
    yield said[:]
    said.clear()
    try:
        with group.guarded():
            if group.member == victim:
                end(group)
            group.agree([False])
    except WorkerLost as error:
        group.interrupt = lambda plan: group._orders.give(plan)  # which breaks calls off in a thread of its own
        said.clear()
        group.reform(error, 0)
        yield said[:]
        said.clear()
    group.close()
    yield said
    del step


def forgets(group, data, topology, recipe):
    """Train, and let go of everything but the group; yields whether the network is gone, and that the group works."""
    import gc
    import weakref

    from detol.workers.train import Training

    for _ in range(2):
        training = Training(topology, data, recipe, epochs=1, seed=3, group=group)
        last = [report.epoch for report in training.reports()]
        network = weakref.ref(training.model)
        del training
        group.rest()
        gc.collect()
        yield (last, network() is None)
        group.begin(None)


def hands_over(group, data, job, victim):
    """Run a job; the victim dies while what the job ends with is made. Yields what is handed over, and who was lost."""
    import detol.workers.train as module
    from detol.workers.training_job import run

    def fatal(call):
        def called(*arguments):
            if (group.generation, group.member) == (0, victim):
                end(group)
            return call(*arguments)

        return called

    for name in ("pack", "save", "gather"):
        setattr(module, name, fatal(getattr(module, name)))
    yield from run(job, data, group=group, stop=lambda: False)
    yield group.lost


def averages(group, data, topology, recipe):
    """Train apart; rank 2 dies in an average whose last message rank 0 gets and rank 1 does not (local SGD)."""
    import torch.distributed as dist

    from detol.workers.train import Training

    training = Training(topology, data, recipe, epochs=2, seed=3, group=group)
    communication = training._communication
    inner = communication.settle

    def settle():
        first = communication.apart and group.generation == 0
        if first and group.member == 1:
            dist.all_reduce(torch.cat([p.detach().flatten() for p in communication.parameters]))
            raise RuntimeError("[gloo] Connection closed by peer")
        inner()
        if first and group.member == 2:
            end(group)

    communication.settle = settle
    yield from training.reports()
    yield torch.cat([parameter.detach().flatten() for parameter in training.model.parameters()]).numpy()
    yield group.lost


def inherits(group, data, topology, recipe, parent, victim):
    """Train from a parent's weights; the victim dies before the first step."""
    from detol.workers.train import Training

    if group.rank == victim:
        end(group)
    training = Training(topology, data, recipe, epochs=2, seed=3, group=group, parent=parent)
    yield from training.reports()
    yield group.lost


def comes_late(group, data, job):
    """Run a job; rank 1 dies behind the last gather, which rank 0 has had whole and rank 2 has not."""
    from detol.workers.training_job import run

    inner, count = group.gather, [0]

    def gather(rows):
        found = inner(rows)
        count[0] += 1
        if count[0] == job.epochs and group.generation == 0:
            if group.member == 1:
                end(group)
            if group.member == 2:
                raise RuntimeError("[gloo] Connection closed by peer")
        return found

    group.gather = gather
    yield from run(job, data, group=group, stop=lambda: False)
    yield group.lost
