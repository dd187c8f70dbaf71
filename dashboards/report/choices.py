"""Pictures of the decisions: which of them matter, and what their options are worth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from detol.dashboards.report.facts import Facts
from detol.dashboards.report.importance import LEAST, RESAMPLES, Answer, importance
from detol.dashboards.report.picture import Axis, Bars, Picture
from detol.dashboards.web.axis import short
from detol.dashboards.web.figures import better_way, name_of
from detol.results.query import Record

SHOWN, OPENED = 15, 4
"""Decisions in the picture, and those whose options are shown."""
SHARE = 0.8
"""Of the trained trials that have to have reached the epoch at which they are compared."""


@dataclass(frozen=True)
class Alike:
    """Trials that can be compared: their values after as many epochs.

    Args:
        epoch: the greatest one that ``SHARE`` of the trained trials reached.
        records: those that did.
        values: of them after that epoch.
    """

    epoch: int
    records: Sequence[Record]
    values: Sequence[float]


def alike(facts: Facts) -> Alike:
    """Return the trials of a search at an epoch that most of them reached.

    The last values of trials that were stopped after different epochs say more of when they were stopped than of what
    was decided.
    """
    known = {n: {epoch: value for epoch, value in curve if math.isfinite(value)} for n, curve in facts.curves.items()}
    held = [record for record in facts.records if known.get(record.number)]
    reached = sorted((max(known[record.number]) for record in held), reverse=True)
    epoch = reached[math.ceil(SHARE * len(reached)) - 1] if reached else 0
    found = [record for record in held if epoch in known[record.number]]
    return Alike(epoch, found, [known[record.number][epoch] for record in found])


def answer(facts: Facts, resamples: int = RESAMPLES) -> Answer | None:
    """Return which decision matters, as the trials of a search say; ``None`` when they say nothing."""
    found = alike(facts)
    return importance([record.decisions for record in found.records], found.values, resamples=resamples)


def pictures(facts: Facts, found: Answer | None) -> list[Picture]:
    """Return the picture of importance, and that of the options of the most important decisions."""
    metric, compared = name_of(facts.first.metric), alike(facts)
    last = compared.epoch >= (facts.row.epochs or compared.epoch)
    when = "" if last else f" after epoch {compared.epoch} ({len(compared.records)} trials came so far)"
    if found is None:
        return [
            Picture(
                "importance",
                "importance of decisions",
                Axis(""),
                Axis(""),
                empty=f"at least {LEAST} trials with different decisions and scores are needed: there are "
                f"{len({str(sorted(record.decisions.items())) for record in compared.records})}",
            )
        ]
    shown = found.decisions[:SHOWN]
    fit, low, high = (round(part, 2) + 0.0 for part in found.explained)  # no minus before a zero
    left = len(found.decisions) - len(shown)
    nothing = "" if low > 0 else " That is not more than nothing, so the shares below mean little."
    note = (
        f"Share of the variance of {metric}{when} that hangs on each decision: permutation importance in random "
        f"forests, as total-effect Sobol index (Breiman 2001; Jansen 1999); mean and 95 % interval of bootstrap "
        f"samples of {found.trials} different trials. Of trials it has not seen the forest explains {fit:.0%} of the "
        f"variance ({low:.0%} to {high:.0%}).{nothing}"
    )
    importances = Picture(
        "importance",
        "importance of decisions",
        Axis("share of the variance"),
        Axis(""),
        [
            Bars(
                [each.name for each in shown],
                [each.share for each in shown],
                "completed",
                low=[each.low for each in shown],
                high=[each.high for each in shown],
                say=[f"{each.name}\n{each.share:.1%} ({each.low:.1%} to {each.high:.1%})" for each in shown],
            )
        ],
        note + (f" {left} less important ones are not shown." if left > 0 else ""),
    )
    opened = [(each, option) for each in shown[:OPENED] for option in each.options]
    options = Picture(
        "options",
        f"{metric} by option" + ("" if last else f", after epoch {compared.epoch}"),
        Axis(better_way(facts.first)),
        Axis(""),
        [
            Bars(
                [f"{each.name} = {option.label}" for each, option in opened],
                [option.mean for _, option in opened],
                "completed",
                low=[option.low for _, option in opened],
                high=[option.high for _, option in opened],
                say=[
                    f"{each.name} = {option.label}\nmean {short(option.mean)} of {option.count} trials"
                    f"\n95 %: {short(option.low)} to {short(option.high)}"
                    for each, option in opened
                ],
                dots=True,
            )
        ],
        f"Mean {metric}{when} of the trials with each option of the most important decisions, with its 95 % bootstrap "
        "interval. A strategy does not choose at random, so what goes along with an option is in it too.",
    )
    return [importances, options]
