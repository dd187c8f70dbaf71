"""What runs a job by training: the default entry of executors (see :mod:`detol.workers.entry`)."""

from collections.abc import Callable, Iterator

from detol.errors import WorkerLost
from detol.search.records import Job
from detol.workers.entry import Item, Paused
from detol.workers.group import Group
from detol.workers.tensors import Tensors
from detol.workers.train import Training


def run(job: Job, data: Tensors, *, group: Group, stop: Callable[[], bool]) -> Iterator[Item]:
    """Run a job: the reports, then the weights, or the checkpoint of one that paused (rank 0 alone has them to send).

    All ranks stay until rank 0 has handed them over: when it dies before that, another one does it.
    """
    training = Training(
        job.candidate.topology,
        data,
        job.recipe,
        epochs=job.epochs,
        seed=job.seed,
        group=group,
        stop=stop,
        limit=job.limit,
        checkpoint=job.checkpoint,
        until=job.until,
        parent=(*job.parent, job.candidate.transfer) if job.parent and job.candidate.transfer else None,
    )
    if training.inherited is not None:
        yield {"inherited": training.inherited}
    handed = False
    while True:
        yield from training.reports()
        try:
            with group.guarded():
                items = [] if handed and not training.together else _results(training, job, group)
            yield from items
            handed = group.rank == 0
            with group.guarded():
                group.agree((False,))
        except WorkerLost as error:
            # In the way of its steps: a survivor may still be in the last of them.
            training.survive(error)
        else:
            return


def _results(training: Training, job: Job, group: Group) -> list[Item]:
    """Return what a rank hands over at the end of its training: facts of its own, and what rank 0 has for all."""
    first = group.rank == 0
    items: list[Item] = [{**training.sent, **training.engine}] if training.sent or training.engine else []
    if training.paused:
        checkpoint = training.checkpoint() if first or training.together else None
        return [*items, Paused(checkpoint if first else None)]
    if not first:
        return items
    if job.measures and training.epoch == job.epochs:
        items.append(training.measured(job.measures))
    # What is measured is going to be cut, and the optimiser's memory with it.
    return [*items, training.weights(optimiser=bool(job.measures))]
