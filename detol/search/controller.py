"""The controller: proposes, dispatches, judges, records. It knows the seams (``protocols``) and nothing behind them.

One thread owns everything here. Each turn of the loop fills the free workers, waits for events, handles them, and
commits; a crash therefore loses at most what happened since the last turn, and the log always fits the trials.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from detol.errors import DetolError
from detol.search.fidelity import Fidelity
from detol.search.history import TIME_UP, History, copy
from detol.search.inheritance import Inheritance
from detol.search.ledger import Ledger
from detol.search.past import again, follow, left_out, restore
from detol.search.protocols import Clock, Executor, Keeper, Stopper, Store, Strategy, Tracker
from detol.search.records import Candidate, Ended, Event, Job, Reported, State, Trial, Verdict
from detol.search.reuse import Reuse
from detol.search.scoring import with_end, with_report
from detol.search.seats import Seats, proposals_left
from detol.search.seeds import trial_seed
from detol.search.spared import CHECKPOINT, KNOWN
from detol.search.tally import Tally
from detol.search.task import Outcome, Task

POLL_SECONDS = 0.2


class Controller:
    """Runs one search until its limits, the end of its space, or an interrupt.

    Args:
        task: what is searched for.
        strategy, stopper, executor, store, tracker, keeper, clock: the running parts, owned by the controller while
            ``run`` lasts (the caller closes executor and tracker).
        consumed: seconds that earlier runs of this search consumed.
        twin: history of an identical search, whose results answer this one as far as they go.
        watch: called once a turn with the controller itself, for progress.
        warn: called with one line for people.
    """

    def __init__(
        self,
        task: Task,
        *,
        strategy: Strategy,
        stopper: Stopper,
        executor: Executor,
        store: Store,
        tracker: Tracker,
        keeper: Keeper,
        clock: Clock,
        consumed: float = 0.0,
        twin: History | None = None,
        watch: Callable[["Controller"], None] = lambda _: None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.task = task
        self._strategy, self._stopper, self._executor = strategy, stopper, executor
        self._store, self._keeper, self._clock = store, keeper, clock
        self._consumed, self._mark = consumed, clock.now()
        self._twin, self._watch, self._warn = twin, watch, warn
        self._measures: tuple[str, ...] = tuple(getattr(strategy, "measures", ()))
        self._facts: Callable[[Trial], Mapping[str, int]] = getattr(stopper, "facts", lambda _: {})
        self._inheritance = Inheritance(task, keeper, warn)
        self._ledger = Ledger(store, tracker, task.objectives, self._inheritance.ended)
        self._ledger.tally.references = left_out(task)
        self._fidelity = Fidelity(task, stopper, keeper, self._ledger, warn)
        parts = (stopper, keeper, self._fidelity, self._ledger, clock)
        self._reuse = Reuse(task, store, *parts, over=self._inheritance.over, measures=bool(self._measures))
        self._seats = Seats(task, executor, self._ledger, self._fidelity, clock)
        self._references: deque[Candidate] = deque()
        self._stopping: dict[int, str] = {}
        self._retried: set[int] = set()
        self._next, self._refused_in_a_row, self._quiet_since = 0, 0, clock.now()
        self._ended, self._interrupted = "", False

    @property
    def tally(self) -> Tally:
        """Counts and best trials so far."""
        return self._ledger.tally

    @property
    def running(self) -> Mapping[int, Trial]:
        """The trials that run, by number."""
        return self._ledger.running

    @property
    def seconds(self) -> float:
        """Consumed seconds so far, earlier runs of this search included."""
        return self._consumed + self._clock.now() - self._mark

    def interrupt(self) -> None:
        """Ask the run to end at its next turn; what runs or rests is left to a resume. Safe in a signal handler."""
        self._interrupted = True

    def run(self) -> Outcome:
        """Search, and return how it ended.

        Raises:
            DetolError: no worker ever came up, or the store cannot be written.
        """
        self._mark = self._quiet_since = self._clock.now()
        self._take_up()
        while not self._interrupted:
            if self.seconds >= self.task.limits.seconds:
                self._time_is_up()
            self._reuse.look_again()
            self._fill()
            self._watch(self)
            if self._over and not self._from_scratch():
                break
            self._expect_a_worker()
            if self._ledger.awaited and not self.running:
                self._clock.wait(POLL_SECONDS)  # an executor without a job returns at once
            self._at_once = self._together  # events tell of workers that are free already
            for event in self._executor.poll(POLL_SECONDS):
                self._handle(event)
            self._commit()
        if self._ledger.untold and not self._interrupted:
            self._ledger.tell(self._strategy, 0)  # so that a longer search of the same name knows it
        self._commit()
        self._watch(self)
        return Outcome(self.tally, self.seconds, self._ended if self._over else "interrupted", not self._over)

    @property
    def _over(self) -> bool:
        return bool(self._ended) and not self._ledger.open

    # -- starting trials -------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Give the free workers something to do."""
        while self._wanted():
            room = self._executor.free() // self.task.width
            if room < 1 or not self._start(room):
                return

    def _wanted(self) -> bool:
        """Return whether there is anything for a free worker, or may be; otherwise the search has ended."""
        ledger = self._ledger
        if ledger.waiting or ledger.resting:
            return True
        if not self._ended and self._left < 1 and not ledger.running and not ledger.awaited:
            self._ended = f"all {self.task.limits.trials:g} trials are done"
        return not self._ended

    @property
    def _left(self) -> float:
        """How many more trials may start."""
        return self.task.limits.trials - (self.tally.trials - self.tally.retrained) - self._ledger.open

    @property
    def _together(self) -> int:
        """How many trials can run at once, >= 1."""
        ranks = self._executor.free() + sum(trial.width for trial in self.running.values())
        return max(1, ranks // self.task.width)

    def _start(self, room: int) -> bool:
        """Start something on free workers, or end something; return whether there may be more to do."""
        if self._ledger.waiting:
            return self._submit(self._seats.next(self._ledger.waiting))
        started = not self._references or self._left < 1 or bool(self._ended)
        on = self._fidelity.promoted(self.task.limits.seconds - self.seconds, self._together, started=started)
        if on:
            return self._submit(on)
        if not self._ended and self._left >= 1:
            self._propose(int(min(room, self._left)))
            return True
        if not self._fidelity.finishing:
            return False  # what runs may still come to rest, and be among the best
        on = self._fidelity.finisher()
        if on:
            return self._submit(on)
        if not self._ledger.running and not self._ledger.awaited:
            self._fidelity.settle()
        else:
            return False
        return True

    def _from_scratch(self) -> bool:
        """Let the winner be trained from scratch if its score was inherited, while there is time; return whether."""
        winner = self._inheritance.retraining(self.tally) if self.seconds < self.task.limits.seconds else None
        trial = self._admit(winner) if winner else None
        if trial:
            self._ledger.wait(trial)
        return winner is not None

    def _propose(self, count: int) -> None:
        candidates = self._candidates(count)
        for candidate in candidates:
            trial = self._admit(candidate)
            if trial and self.task.widths:  # the width of each depends on all of them
                self._ledger.wait(trial)
            elif trial:
                self._submit(trial)
        if not candidates:
            over = f"the space {self.task.space.name} is exhausted: every topology in it was proposed"
            self._ended = getattr(self._strategy, "over", over)
        elif self._refused_in_a_row >= self.task.limits.refusals:
            self._ended = f"{self._refused_in_a_row} candidates in a row were refused: raise the limits"
        self._commit()

    def _candidates(self, count: int) -> Sequence[Candidate]:
        if self._references:
            return [self._references.popleft()]
        self._ledger.tell(self._strategy, count)
        return self._strategy.ask(count)

    def _new(self, candidate: Candidate) -> Trial:
        return Trial(
            self._next,
            candidate,
            State.RUNNING,
            self.task.epochs,
            seed=trial_seed(self.task.seed, candidate.digest),
            width=self.task.width,
        )

    def _admit(self, candidate: Candidate) -> Trial | None:
        """Make a trial of a candidate, and return it if it is to be trained: it was neither refused nor answered."""
        trial = self._new(candidate)
        self._next += 1
        assessment = self.task.assess(candidate)
        trial = replace(trial, extra=dict(assessment.costs))
        if assessment.refusal:
            self._refused_in_a_row += 1
            self._ledger.finish(replace(trial, state=State.REFUSED, reason=assessment.refusal), new=True)
            return None
        self._refused_in_a_row = 0
        trial = replace(trial, extra={**trial.extra, **self._facts(trial)})
        found = self._reuse.look(trial)
        if found is not None and found.state.final:
            self._ledger.finish(found, new=True)
            return None
        if found is not None and found.state is State.PAUSED:
            self._ledger.rest(found, None, new=True)
            return None
        trial = self._inheritance.noted(found or trial)
        self._ledger.add(trial)
        return trial

    def _submit(self, trial: Trial) -> bool:
        """Give a trial its workers; return whether others may have what is left: not while it waits for more."""
        best = self._fidelity.ahead(trial, self.task.limits.seconds - self.seconds)
        if best:
            self._ledger.wait(trial, first=True)
            trial = best
        left = 0.0 if self._ended else proposals_left(self._left - 1, self.task.space.size, self._next)
        seated = self._seats.choose(trial, left)
        if seated is None:
            self._ledger.wait(trial, first=True)
            return False
        mine = self._reuse.begin(seated)
        if mine is None:
            return True
        trial = mine
        milestone = self._fidelity.milestone(trial)
        trial, checkpoint = self._fidelity.checkpoint(trial)
        candidate, parent = trial.candidate, None
        if checkpoint is None and KNOWN not in trial.extra:  # a checkpoint holds what was inherited
            trial, candidate, parent = self._inheritance.begun(trial, self._fidelity.open)
        self._ledger.run(trial)
        # The limit is one of the whole attempt, however often it paused.
        done = trial.reports if checkpoint else ()
        limit = max(0.0, self.task.limits.trial_seconds - sum(report.seconds for report in done))
        job = Job(
            trial.number,
            candidate,
            self.task.recipe,
            trial.epochs,
            trial.seed,
            trial.width,
            limit,
            trial.attempt,
            until=milestone,
            checkpoint=checkpoint,
            parent=parent,
            measures=self._measures,
        )
        self._executor.submit(job)
        self._seats.began(trial.number, milestone)
        return True

    def _expect_a_worker(self) -> None:
        """Give up when no worker comes up at all (watchdog: work is waiting and nothing runs)."""
        limit = self.task.limits.start_seconds
        if self.running or self._executor.free() >= self.task.width:
            self._quiet_since = self._clock.now()
        elif self._clock.now() - self._quiet_since > limit:
            raise DetolError(f"{self.task.width} free workers are needed and none came up within {limit:g} s")

    def _time_is_up(self) -> None:
        """Start nothing more, stop what runs or rests; what waits without a score is left to a longer resume."""
        self._ended = self._ended or f"the time is used up: {self.task.limits.seconds:g} s"
        for trial in self._ledger.give_up_waiting():
            if trial.scores is not None:
                self._ledger.finish(self._fidelity.closed(replace(trial, state=State.STOPPED, reason=TIME_UP)))
        self._fidelity.settle(TIME_UP)
        for number in self.running:
            self._stop(number, TIME_UP)

    # -- following trials ------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        if event.number not in self.running:
            return  # of an attempt that was given up
        if isinstance(event, Reported):
            self._reported(self.running[event.number], event)
        else:
            self._seats.ended(event.number)
            self._attempt_ended(self._ledger.running.pop(event.number), event)

    def _reported(self, trial: Trial, event: Reported) -> None:
        self._seats.reported(trial.number)
        if event.report.epoch <= trial.epoch:  # known: from before its checkpoint, or from another search's curve
            self._ledger.run(replace(trial, seconds=trial.seconds + event.report.seconds))
            return
        trial = with_report(trial, event.report, self.task.objectives)
        self._ledger.report(trial, event)
        if trial.epoch >= trial.epochs or trial.number in self._stopping:
            return
        if self._fidelity.spares(trial):
            return  # references train to the last milestone, one of them to its end
        # The best in the end do not pause any more, but one that a rule finds hopeless by now is stopped.
        verdict = self._stopper.judge(trial, self._ledger.others((trial.number,)))
        if verdict is Verdict.STOP:
            self._stop(trial.number, f"{type(self._stopper).__name__} at epoch {trial.epoch}")
        self._fidelity.judged(trial, verdict)

    def _stop(self, number: int, reason: str) -> None:
        if number not in self._stopping:
            self._stopping[number] = reason
            self._executor.cancel(number)

    def _attempt_ended(self, trial: Trial, event: Ended) -> None:
        stopping = self._stopping.pop(trial.number, "")
        if event.state is State.LOST and trial.number not in self._retried and not stopping:
            self._retried.add(trial.number)
            self._warn(f"trial {trial.number}: {event.reason}; it is tried again")
            self._ledger.wait(again(trial, event.reason, self._fidelity))
            return
        if event.state is State.FAILED and CHECKPOINT in trial.extra and event.reason.startswith("CheckpointError"):
            self._warn(f"trial {trial.number}: {event.reason}; it starts again from its beginning")
            self._ledger.wait(self._fidelity.without(trial), first=True)
            return
        if event.state is State.PAUSED and stopping:
            event = replace(event, state=State.STOPPED, weights=None)  # it paused before the stop came to it
        reason = event.reason or (stopping if event.state is State.STOPPED else "")
        ended = with_end(trial, replace(event, reason=reason))
        if ended.state is State.PAUSED:
            self._fidelity.paused(ended, event, self.task.limits.seconds - self.seconds, self._at_once)
            return
        ended = self._inheritance.over(self._fidelity.closed(ended))
        if event.weights and event.state is not State.PAUSED and ended.scores is not None:
            ended = replace(ended, weights=self._keeper.keep(ended, event.weights))
        self._ledger.finish(ended, event=event)

    # -- the past --------------------------------------------------------------------------------------------------

    def _take_up(self) -> None:
        """Take up this search where it stands, or repeat an identical one."""
        self._next = max((trial.number for trial in self._store.trials()), default=-1) + 1
        new = self._next == 0
        parts = (self._store, self._strategy, self._ledger, self._fidelity, self.task, self._warn)
        left = restore(*parts, answered=self._answered)
        self._references.extend(left)
        if self._twin and new:
            follow(
                self._twin,
                self._strategy,
                self._ledger,
                self._references,
                full=lambda more: more > self._left,
                repeat=self._repeat,
                commit=self._commit,
            )
        self._commit()

    def _answered(self, candidate: Candidate) -> bool:
        """Return whether a reference costs no training, or where a search is repeated, whether that one tried it."""
        if self._twin:
            named = (trial.candidate for trial in self._twin.trials.values() if trial.candidate.named)
            return candidate.note in {reference.note for reference in named}
        found = self._reuse.look(self._new(candidate))
        return found is not None and found.state is State.COMPLETED

    def _repeat(self, past: Trial | None, candidate: Candidate, name: str) -> Trial | None:
        """Answer a candidate by the trial of the twin search with the same number; otherwise queue it for training."""
        copied = copy(past, candidate, name) if past and past.number == self._next else None
        if copied:
            self._next += 1
            self._ledger.finish(copied, new=True)
            return copied
        trial = self._admit(candidate)
        if trial:
            self._ledger.wait(trial)
            return None
        return self._ledger.latest

    def _commit(self) -> None:
        now = self.seconds
        self._store.spend(now - self._consumed)
        self._consumed, self._mark = now, self._clock.now()
        self._store.commit()
        self._fidelity.sweep()
