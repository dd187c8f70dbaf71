"""What the ranks of ``test_widths`` run; loaded by their processes from this file."""

from detol.workers.train import Training


def trains(group, data, topology, recipe, epochs, seed, checkpoint, until):
    """Train from a checkpoint (or the start) to an epoch; yield the reports, then the checkpoint of rank 0."""
    training = Training(
        topology, data, recipe, epochs=epochs, seed=seed, group=group, checkpoint=checkpoint, until=until
    )
    for report in training.reports():
        yield (report.epoch, dict(report.metrics))
    saved = training.checkpoint() if training.paused else None
    if group.rank == 0:
        yield saved
