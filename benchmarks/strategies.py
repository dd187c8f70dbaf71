"""Search strategies on NAS-Bench-201: trainings to the best, at 12,000 s, and guided without each of its parts.

Four protocols, as ``detol bench`` runs them: ``queries`` (200-epoch validation accuracy, each proposal charged, rows of
the table are trainings of their own), ``seconds`` (12-epoch validation accuracy on CIFAR-10, 12,000 s, 200-epoch test
accuracy reported), ``network`` (as queries, equal networks counted once) and ``async`` (1,000 simulated workers, the
strategy's own time charged as it really is). Settings of guided were chosen on made-up tables and on both data sets
together; see the note of the issue. Mean over seeds with 95 % bootstrap intervals.

Parts of the table may be made in several calls (``--protocols``, ``--strategies``, ``--ablations``) with ``--to FILE``
and put together: ``--merge FILE FILE ...``. ``--until-best`` ends each search of ``queries`` and ``network`` when it
has found the table's best: the same figures in a fraction of the time (but duplicates are counted until then). What
each search costs stands on standard error.
"""

import json
import math
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # seeds run side by side, one a core

from common import arguments, device

from detol import wire
from detol.bench import Entry, Protocol, answer, open_table
from detol.bench.compare import one_thread
from detol.bench.run import identity, run
from detol.search.records import Objective
from detol.spaces import catalogue

SETS = ("cifar10", "cifar100")
PROTOCOLS = ("queries", "seconds", "network", "async")
STRATEGIES = (
    "optuna:GPSampler",  # the slow one first, so that no core waits for it at the end
    "random",
    "local_search",
    "evolution",
    "nsga2",
    "reinforce",
    "ppo",
    "qlearning",
    "optuna:TPESampler",
    "optuna:NSGAIISampler",
    "guided",
)
PARTS: dict[str, dict[str, Any]] = {
    "prior": {"prior": False},
    "paths": {"paths": False},
    "warp": {"warp": False},
    "local": {"local": 0.0},
    "references": {"references": False},
    "all": {"prior": False, "paths": False, "warp": False, "local": 0.0, "references": False},
}
"""What guided does without in each ablation; ``all`` leaves a Gaussian process over decisions."""
NETWORK = ("random", "local_search", "guided")
QUICK = ("random", "local_search", "guided")
SECONDS = 12_000.0


def main() -> None:
    """Run the protocols asked for, or put parts together, and print the table."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--table", default="../shared/data/nasbench201.csv.gz", help="the table (see its README)")
    parser.add_argument("--protocols", default="", help=f"of {','.join(PROTOCOLS)} (default: all)")
    parser.add_argument("--sets", default=",".join(SETS), help="data sets of queries and network")
    parser.add_argument("--strategies", default="", help="names with commas, or none (default: all)")
    parser.add_argument("--ablations", default="", help=f"of {','.join(PARTS)}, or none (default: all)")
    parser.add_argument("--seeds", type=int, default=100, help="searches of each strategy")
    parser.add_argument("--gp-seeds", type=int, default=20, help="searches of optuna:GPSampler, which is slow")
    parser.add_argument("--trials", type=int, default=200, help="trainings of a search in queries and network")
    parser.add_argument("--until-best", action="store_true", help="end a search when it has found the best")
    parser.add_argument("--processes", type=int, default=0, help="0: one a core")
    parser.add_argument("--to", type=Path, help="file for the JSON object")
    parser.add_argument("--merge", type=Path, nargs="+", help="files of earlier calls: print their table, run nothing")
    options = parser.parse_args()
    if options.merge:
        figures = merged(json.loads(path.read_text(encoding="utf-8").splitlines()[-1]) for path in options.merge)
    else:
        if options.quick:
            options.seeds, options.trials, options.gp_seeds = 4, 50, 2
        figures = _Bench(options).figures()
    print(markdown(figures))
    text = json.dumps(figures)
    if options.to:
        options.to.write_text(text + "\n", encoding="utf-8")
    if options.json:
        print(text)


class _Bench:
    def __init__(self, options: Any) -> None:
        self.options = options
        names = _chosen(options.strategies, QUICK if options.quick else STRATEGIES, STRATEGIES)
        parts = _chosen(options.ablations, () if options.quick else tuple(PARTS), tuple(PARTS))
        self.protocols = _chosen(options.protocols, ("queries", "seconds") if options.quick else PROTOCOLS, PROTOCOLS)
        slow = {"optuna:GPSampler": options.gp_seeds}
        self.entries = [Entry(name, seeds=slow.get(name, 0)) for name in STRATEGIES if name in names]
        self.entries += [Entry("guided", PARTS[part], f"guided without {part}") for part in parts]
        self.space = catalogue.load("nasbench201")

    def figures(self) -> dict[str, Any]:
        """Return the figures of all protocols asked for."""
        start = time.perf_counter()
        chosen = self.options
        found: dict[str, Any] = {"benchmark": "strategies", "table": Path(chosen.table).name, "quick": chosen.quick}
        for protocol in self.protocols:
            if protocol in ("queries", "network"):
                sets = _chosen(chosen.sets, SETS, SETS)
                found[protocol] = {name: self._queries(name, protocol == "network") for name in sets}
            elif protocol == "seconds":
                found[protocol] = self._seconds()
            else:
                found[protocol] = [self._async(name) for name in ("random", "guided")]
        return {**found, "wall_seconds": time.perf_counter() - start, **device()}

    def _table(self, objective: str, tests: list[str], cost: str = "") -> Any:
        chosen = self.options
        return open_table(chosen.table, self.space, Objective(objective), key="arch_code", tests=tests, cost=cost)

    def _compare(self, what: str, table: Any, protocol: Protocol, entries: Sequence[Entry]) -> list[dict[str, Any]]:
        if not entries:
            return []
        seeds, processes = self.options.seeds, self.options.processes
        found = answer(
            table, protocol, entries, wire.strategy, seeds=seeds, processes=processes, progress=_progress(what)
        )
        strategies: list[dict[str, Any]] = found["strategies"]
        for entry in strategies:
            del entry["regret"]
            each, name, count = entry["search_seconds"], entry["strategy"], entry["seeds"]
            print(f"{what} {name}: {each:.1f} s a search, {each * count:.0f} core-s in all", file=sys.stderr)
        print(f"{what}: {found['seconds']:.0f} s of wall time", file=sys.stderr)
        return strategies

    def _queries(self, name: str, network: bool) -> list[dict[str, Any]]:
        table = self._table(f"{name}_val200", [f"{name}_test200"])
        entries = [e for e in self.entries if not network or (e.strategy in NETWORK and not e.options)]
        protocol = Protocol(
            trials=self.options.trials,
            identity="network" if network else "row",
            until_best=self.options.until_best,
        )
        return self._compare(f"{'network' if network else 'queries'} {name}", table, protocol, entries)

    def _seconds(self) -> list[dict[str, Any]]:
        tests = [f"{name}_test200" for name in SETS]
        table = self._table("cifar10_val12", tests, "cifar10_train_seconds200*12/200")
        return self._compare("seconds", table, Protocol(seconds=SECONDS), self.entries)

    def _async(self, name: str) -> dict[str, Any]:
        """Return the utilisation of 1,000 workers, four trainings each, the strategy's real time charged."""
        workers, each = (100, 3) if self.options.quick else (1_000, 4)
        table = self._table("cifar10_val200", [], "cifar10_train_seconds200")
        protocol = Protocol(trials=workers * each, seconds=math.inf, workers=workers, charge=True)
        strategy = wire.strategy(name, self.space, seed=0, identity=identity(table, protocol))
        with one_thread():
            found = run(table, strategy, protocol)
        return {
            "strategy": name,
            "workers": workers,
            "trainings": len(found.rows),
            "utilisation": found.utilisation,
            "ask_seconds_per_training": found.ask_seconds / len(found.rows),
            "simulated_hours": float(found.ends.max()) / 3600,
            "seconds": found.seconds,
        }


def _chosen(text: str, usual: Sequence[str], known: Sequence[str]) -> list[str]:
    names = list(usual) if not text else [] if text == "none" else text.split(",")
    for name in names:
        if name not in known:
            sys.exit(f"{name!r} is none of {', '.join(known)}")
    return names


def _progress(what: str) -> Any:
    start = time.perf_counter()

    def show(done: int, of: int) -> None:
        if sys.stderr.isatty() or done % max(1, of // 10) == 0:
            taken = time.perf_counter() - start
            print(
                f"{what}: {done}/{of} searches, {taken:.0f} s, {taken / done * (of - done):.0f} s left", file=sys.stderr
            )

    return show


# -- tables ------------------------------------------------------------------------------------------------------------


def merged(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of several calls as one; of a strategy that stands in several, the last."""
    total: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if key in ("queries", "network"):
                for name, rows in value.items():
                    total.setdefault(key, {})[name] = _joined(total.get(key, {}).get(name, []), rows)
            elif key in ("seconds", "async"):
                total[key] = _joined(total.get(key, []), value)
            else:
                total[key] = total.get(key, 0.0) + value if key == "wall_seconds" else value
    return total


def _joined(before: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({row["strategy"]: row for row in [*before, *rows]}.values())


def markdown(figures: dict[str, Any]) -> str:
    """Return the figures as Markdown tables."""
    lines: list[str] = []
    for protocol in ("queries", "network"):
        for name, rows in figures.get(protocol, {}).items():
            lines += ["", f"**{protocol}, {name}**", "", *_lines(_query_row(row, f"{name}_test200") for row in rows)]
    if "seconds" in figures:
        lines += ["", f"**seconds ({SECONDS:,.0f} s)**", "", *_lines(map(_seconds_row, figures["seconds"]))]
    if "async" in figures:
        lines += ["", "**async**", "", *_lines({k: _short(v) for k, v in row.items()} for row in figures["async"])]
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    return "\n".join([*lines[1:], "", f"{figures['device']}, {figures['cores']} cores; {versions}", ""])


def _query_row(row: dict[str, Any], test: str) -> dict[str, str]:
    ci, by = row["intervals"], row["found_by"]
    return {
        "strategy": row["strategy"],
        "n": str(row["seeds"]),
        "trainings to the best": _with(row["mean_trainings_to_best"], ci["mean_trainings_to_best"], 1),
        "median": f"{row['median_trainings_to_best']:g}",
        "found": f"{row['found']:.0%}",
        "by 100": f"{by['100']:.0%}" if "100" in by else "",
        "best@50": _with(row["best"]["50"], ci["best"]["50"], 3) if "50" in row["best"] else "",
        "best at the end": _with(row["best"]["end"], ci["best"]["end"], 3),
        "its test": _with(row["test"][test]["end"], ci["test"][test], 2),
        "duplicates": f"{row['duplicates']:.1f}",
        "s a search": f"{row['search_seconds']:.1f}",
    }


def _seconds_row(row: dict[str, Any]) -> dict[str, str]:
    tests = {
        name: (row["test"][f"{name}_test200"]["end"], row["intervals"]["test"][f"{name}_test200"]) for name in SETS
    }
    return {
        "strategy": row["strategy"],
        "n": str(row["seeds"]),
        **{f"{name} test": _with(*figures, 2) for name, figures in tests.items()},
        "proxy": _with(row["best"]["end"], row["intervals"]["best"]["end"], 3),
        "trainings": f"{row['trainings']:.0f}",
        "proxy's best found": f"{row['found']:.0%}",
        "duplicates": f"{row['duplicates']:.1f}",
        "s a search": f"{row['search_seconds']:.1f}",
    }


def _with(mean: float, interval: Sequence[float], digits: int) -> str:
    return f"{mean:.{digits}f} [{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _lines(rows: Iterable[dict[str, str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        if number == 0:
            yield f"| {' | '.join(row)} |"
            yield f"|{'---|' * len(row)}"
        yield f"| {' | '.join(row.values())} |"


if __name__ == "__main__":
    main()
