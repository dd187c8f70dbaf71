"""An executor without processes or threads: one job at a time, one epoch per poll, in the caller's own stack.

For debugging (a breakpoint in the training loop just works) and for searches on a machine without Ray.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from detol.errors import UsageError
from detol.search.records import Ended, Event, Job, Reported
from detol.workers.entry import Entry, Item, Progress
from detol.workers.outcome import outcome

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset


class InlineExecutor:
    """Trains in this process; implements :class:`~detol.search.protocols.Executor`.

    Args:
        data: what the jobs are trained on.
        device: ``cpu``, ``cuda`` ...
        threads: of torch; as it is by default.
        entry: what runs a job; :func:`detol.workers.training_job.run` by default.
    """

    def __init__(
        self, data: "Dataset", *, device: str = "cpu", threads: int | None = None, entry: Entry | None = None
    ) -> None:
        self._dataset, self._device, self._threads, self._given = data, device, threads, entry
        self._job: Job | None = None
        self._run: Iterator[Item] | None = None
        self._progress: Progress | None = None
        self._stop = False
        self._closed = False

    def free(self) -> int:
        """Return 1, or 0 while a job runs."""
        return 0 if self._job or self._closed else 1

    def submit(self, job: Job) -> None:
        """Take a job; it starts at the next poll."""
        if job.width > self.free():
            raise UsageError(f"the inline executor runs one job of one rank at a time, got width {job.width}")
        self._job, self._run, self._progress, self._stop = job, None, Progress(job), False

    def cancel(self, number: int) -> None:
        """Ask the job to stop at its next step; unknown numbers are ignored."""
        if self._job and self._job.number == number:
            self._stop = True

    def poll(self, timeout: float) -> Sequence[Event]:  # noqa: ARG002  the work is done here, nothing is waited for
        """Train one epoch and return its report, or the end of the job; nothing when there is no job."""
        job, progress = self._job, self._progress
        if job is None or progress is None:
            return []
        try:
            if self._run is None:
                self._run = self._entry(job, self._loaded, group=self._alone, stop=lambda: self._stop)
            for item in self._run:
                report = progress.take(item)
                if report:
                    return [Reported(job.number, report)]
        except Exception as error:  # a trial's failure is a result
            state, reason = outcome(error)
            return [self._end(job, Ended(job.number, state, reason))]
        state, reason = progress.state(self._stop)
        extra = {"device": self._device, **progress.facts}
        return [self._end(job, Ended(job.number, state, reason, weights=progress.weights, extra=extra))]

    def close(self) -> None:
        """Drop the job; idempotent."""
        self._job = self._run = None
        self._closed = True

    def _end(self, job: Job, ended: Ended) -> Ended:
        assert self._job is job
        self._job = self._run = None
        return ended

    # torch is imported when the first job starts, not with this module.

    @cached_property
    def _entry(self) -> Entry:
        from detol.workers.training_job import run

        return self._given or run

    @cached_property
    def _alone(self) -> Any:
        from detol.workers.group import Group

        return Group()

    @cached_property
    def _loaded(self) -> Any:
        from detol.workers.tensors import load, use_threads

        if self._threads:
            use_threads(self._threads)
        return load(self._dataset, self._device)
