"""An executor that tests watch, and the crash that it makes."""

import math

from detol.execution.simulated import SimulatedExecutor


class Crash(Exception):
    """The sudden death of a controller."""


class Watched(SimulatedExecutor):
    """Notes the jobs; may change an event or crash before a poll."""

    def __init__(self, *args, change=lambda job, event: event, crash=math.inf, **options):
        super().__init__(*args, **options)
        self.jobs, self.change, self.crash, self.polls = [], change, crash, 0

    def submit(self, job):
        self.jobs.append(job)
        super().submit(job)

    def poll(self, timeout):
        self.polls += 1
        if self.polls > self.crash:
            raise Crash
        jobs = {job.number: job for job in self.jobs}
        return [self.change(jobs[event.number], event) for event in super().poll(timeout)]
