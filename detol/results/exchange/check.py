"""Whether a bundle may come in: everything is looked at before anything is written."""

from collections.abc import Callable, Iterator, Mapping

from detol.errors import ResultsError
from detol.results.exchange.bundle import Bundle, Row
from detol.results.rules import (
    DATA_TEXTS,
    data_faults,
    recipe_faults,
    search_faults,
    step_faults,
    text_faults,
    topology_faults,
    trial_faults,
)


def check(bundle: Bundle, known: Callable[[str], str | None] = lambda _: None) -> None:
    """Check a bundle.

    Args:
        bundle: from a file or another database.
        known: the digest of a topology by its key, where it was checked before; making one takes milliseconds.

    Raises:
        ResultsError: the first thing that is wrong, in one line.
    """
    where = bundle.where
    for row in bundle.data_sets:
        place = f"{where}, data set {row['name'][:60]!r}"
        _first(data_faults(row), place)
        _first(text_faults(row, DATA_TEXTS), place)  # our own may be named after any file
    for row in bundle.recipes:
        _first(recipe_faults(row), f"{where}, recipe {row['digest'][:40]!r}")
    digests: dict[str, str] = {}
    for row in bundle.topologies():
        if known(row["key"]) != row["digest"]:
            _first(topology_faults(row), f"{where}, topology {row['digest'][:60]!r}")
        digests[row["key"]] = row["digest"]
    _check_searches(bundle)
    answered: dict[tuple[str, int], str] = {}
    present: dict[str, set[int]] = {}
    for row in bundle.searches:
        present[row["name"]] = _check_trials(bundle, row, digests, answered)
    for (name, number), ref in answered.items():
        of, _, answer = ref.rpartition("/")
        if not answer.isdecimal() or int(answer) not in present.get(of, ()):
            raise ResultsError(
                f"{where}, trial {name}/{number}: it was answered by {ref[:60]!r}, which is not in the file: "
                "export it again"
            )


def _check_searches(bundle: Bundle) -> None:
    for name in ("name", "uid"):
        listed = [row[name] for row in bundle.searches]
        if len(set(listed)) < len(listed):
            raise ResultsError(f"{bundle.where}: two searches have the same {name}: it is damaged, export it again")
    there = {
        kind: {row["digest"] for row in rows} for kind, rows in (("data", bundle.data_sets), ("recipe", bundle.recipes))
    }
    for row in bundle.searches:
        place = f"{bundle.where}, search {row['name'][:60]!r}"
        _first(search_faults(row), place)
        for step in row["steps"]:
            _first(step_faults(step), place)
        for kind, digests in there.items():
            if row[kind] not in digests:
                raise ResultsError(f"{place}: its {kind} {row[kind][:60]!r} is not in the file: export it again")


def _check_trials(
    bundle: Bundle, search: Row, digests: Mapping[str, str], answered: dict[tuple[str, int], str]
) -> set[int]:
    numbers: set[int] = set()
    for trial in bundle.trials(search["uid"]):
        place = f"{bundle.where}, trial {search['name'][:60]}/{trial['number']}"
        if trial["number"] in numbers:
            raise ResultsError(f"{place}: there are two of that number: it is damaged, export it again")
        numbers.add(trial["number"])
        _first(trial_faults(trial, trial["reports"], search, digests), place)
        if trial["reused"]:
            answered[search["name"], trial["number"]] = trial["reused"]
    return numbers


def _first(faults: Iterator[str], where: str) -> None:
    for fault in faults:
        raise ResultsError(f"{where}: {fault}: nothing was imported")
