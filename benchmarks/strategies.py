"""Search strategies on NAS-Bench-201: trainings to the best, at 12,000 s, and guided without each of its parts.

Four protocols, as ``detol bench`` runs them: ``queries`` (200-epoch validation accuracy, each proposal charged, rows of
the table are trainings of their own), ``network`` (the same with equal networks counted once), ``seconds`` (12-epoch
validation accuracy on CIFAR-10, 12,000 s, 200-epoch test accuracy reported) and ``async`` (1,000 simulated workers,
the strategy's own time charged as it really is). Settings of guided were chosen on made-up tables and on both data sets
together; see the note of the issue. 100 seeds; mean with 95 % bootstrap intervals.
"""

import math
import sys
from pathlib import Path
from typing import Any

from common import arguments, conclude

from detol import wire
from detol.bench import Entry, Protocol, answer, open_table
from detol.bench.compare import one_thread
from detol.bench.run import identity, run
from detol.search.records import Objective
from detol.spaces import catalogue

SETS = ("cifar10", "cifar100")
ENTRIES = (
    Entry("random"),
    Entry("local_search"),
    Entry("evolution"),
    Entry("reinforce"),
    Entry("ppo"),
    Entry("qlearning"),
    Entry("optuna:TPESampler"),
    Entry("optuna:GPSampler"),
    Entry("guided"),
    Entry("guided", {"prior": False}, "guided without prior"),
    Entry("guided", {"paths": False}, "guided without path kernel"),
    Entry("guided", {"warp": False}, "guided without warp"),
    Entry("guided", {"local": 0.0}, "guided without local moves"),
)
QUICK = ("random", "local_search", "guided")
SECONDS = 12_000.0


def main() -> None:
    """Run the protocols asked for and print the figures."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--table", default="../shared/data/nasbench201.csv.gz", help="the table (see its README)")
    parser.add_argument("--protocol", action="append", choices=("queries", "network", "seconds", "async"))
    parser.add_argument("--strategy", action="append", help="only these, by label; repeat")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--processes", type=int, default=0, help="0: one a core")
    options = parser.parse_args()
    seeds, trials = (4, 60) if options.quick else (options.seeds, options.trials)
    labels = options.strategy or (QUICK if options.quick else None)
    entries = [entry for entry in ENTRIES if labels is None or (entry.label or entry.strategy) in labels]
    wanted = options.protocol or (
        ["queries", "seconds"] if options.quick else ["queries", "network", "seconds", "async"]
    )
    bench = _Bench(options.table, entries, seeds, trials, options.processes)
    figures: dict[str, Any] = {"table": Path(options.table).name, "seeds": seeds, "quick": options.quick}
    if "queries" in wanted:
        figures["queries"] = {name: bench.queries(name, "row") for name in SETS}
    if "network" in wanted:
        figures["network"] = {
            name: bench.queries(name, "network", ("random", "local_search", "guided")) for name in SETS
        }
    if "seconds" in wanted:
        figures["seconds"] = bench.seconds()
    if "async" in wanted:
        figures["async"] = bench.parallel()
    conclude(figures, options.json)


class _Bench:
    def __init__(self, table: str, entries: list[Entry], seeds: int, trials: int, processes: int) -> None:
        self.path, self.entries, self.seeds, self.trials, self.processes = table, entries, seeds, trials, processes
        self.space = catalogue.load("nasbench201")

    def _table(self, objective: str, tests: list[str], cost: str = "") -> Any:
        return open_table(self.path, self.space, Objective(objective), key="arch_code", tests=tests, cost=cost)

    def _compare(self, table: Any, protocol: Protocol, entries: list[Entry]) -> list[dict[str, Any]]:
        found = answer(
            table, protocol, entries, wire.strategy, seeds=self.seeds, processes=self.processes, progress=_progress
        )
        for entry in found["strategies"]:
            del entry["regret"]
        strategies: list[dict[str, Any]] = found["strategies"]
        return strategies

    def queries(self, name: str, identity_: str, only: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        table = self._table(f"{name}_val200", [f"{name}_test200"])
        entries = [entry for entry in self.entries if not only or (entry.label or entry.strategy) in only]
        return self._compare(table, Protocol(trials=self.trials, identity=identity_), entries)

    def seconds(self) -> list[dict[str, Any]]:
        tests = [f"{name}_test200" for name in SETS]
        table = self._table("cifar10_val12", tests, "cifar10_train_seconds200*12/200")
        return self._compare(table, Protocol(seconds=SECONDS), self.entries)

    def parallel(self) -> dict[str, Any]:
        """Return the utilisation of 1,000 workers, some four trainings each, the strategy's real time charged."""
        workers, each = (100, 3) if self.seeds < 10 else (1_000, 4)
        table = self._table("cifar10_val200", [], "cifar10_train_seconds200")
        protocol = Protocol(trials=workers * each, seconds=math.inf, workers=workers, charge=True)
        strategy = wire.strategy("guided", self.space, seed=0, identity=identity(table, protocol))
        with one_thread():
            found = run(table, strategy, protocol)
        return {
            "workers": workers,
            "trainings": len(found.rows),
            "utilisation": found.utilisation,
            "ask_seconds_per_training": found.ask_seconds / len(found.rows),
            "simulated_hours": float(found.ends.max()) / 3600,
        }


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done}/{of} searches", end="\n" if done == of else "", file=sys.stderr)


if __name__ == "__main__":
    main()
