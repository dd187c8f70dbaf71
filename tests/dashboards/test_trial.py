import pytest

from detol.dashboards.trial import BARS, show_trial, sparkline

SHOWN = {
    "trial": "digits-1/7",
    "digest": "d1:0123456789abcdef",
    "metric": "val_accuracy",
    "value": 0.98765,
    "state": "stopped",
    "origin": "mutate",
    "note": "",
    "reason": "asha: not among the best third",
    "attempt": 1,
    "epochs": 20,
    "epoch": 3,
    "seed": 1234567890123,
    "width": 2,
    "seconds": 4.5,
    "reused": "",
    "weights": "",
    "created": "2026-01-02T03:04:05+00:00",
    "ended": "",
    "parents": ["digits-1/1", "digits-1/2"],
    "decisions": {"width": 32, "activation": "relu"},
    "cost": {"params": 12345, "multiply_adds": 6, "activation_bytes": 7, "depth": 3},
    "data": {"name": "digits", "kind": "image", "task": "classification", "digest": "x1:abcd"},
    "recipe": {"digest": "r1:beef", "optimiser": "sgd"},
    "curve": [{"epoch": 1, "value": 0.5}, {"epoch": 2, "value": 0.75}, {"epoch": 3, "value": 1.0}],
    "others": [{"trial": "digits-2/0", "state": "completed", "value": 0.9, "reused": "digits-1/7"}],
}


def shown(screen, **changes) -> str:
    console = screen()
    show_trial(console, {**SHOWN, **changes})
    return console.text


def test_facts_of_a_trial(screen) -> None:
    text = shown(screen)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "digits-1/7: val_accuracy 0.9877 (stopped)"
    for line in (
        "digest d1:0123456789abcdef",
        "reason asha: not among the best third",
        "parents digits-1/1, digits-1/2",
        "seed 1234567890123",  # a name rather than a quantity: no thousands
        "data digits (x1:abcd)",
        "params 12,345",
        "curve ▁▅█ 0.5000 to 1.0000",
        "width 32",
        "activation relu",
        "optimiser sgd",
        "digits-2/0 completed 0.9000 digits-1/7",
    ):
        assert line in lines
    assert "note" not in text  # what is empty is left out


def test_a_trial_without_score_curve_costs_and_others(screen) -> None:
    text = shown(screen, value=None, state="failed", curve=[], cost=None, others=[], parents=[], epoch=0)
    assert "digits-1/7: val_accuracy no score (failed)" in text
    for left_out in ("curve", "params", "parents", "elsewhere"):
        assert left_out not in text


def test_an_inherited_score_is_marked(screen) -> None:
    text = shown(screen, extra={"inherited_from": "3", "inherited": 0.8712, "inherit": "morph"})
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "inherited from trial 3 (0.87 of its parameters, morph)" in lines
    assert "from trial 3" in shown(screen, extra={"inherited_from": "3"})
    assert "inherited" not in shown(screen, extra={"params": 7.0})


def test_markup_is_text(screen) -> None:
    text = shown(
        screen,
        trial="[red]name[/red]/7",
        reason="[/] broke [bold]it",
        decisions={"[i]key": "[u]x[/u]"},
        data={**SHOWN["data"], "name": "[link=x]data"},
    )
    for part in ("[red]name[/red]/7:", "[/] broke [bold]it", "[i]key", "[u]x[/u]", "[link=x]data"):
        assert part in text


@pytest.mark.parametrize("length", [2, 3, 8, 29])
def test_a_sparkline_of_a_straight_line_climbs_evenly(length) -> None:
    bars, _, legend = sparkline([float(n) for n in range(length)]).partition("  ")
    # Bar k of 8 for the share s of the way up, rounded: k = round(7 s).
    assert [BARS.index(bar) for bar in bars] == [round(7 * n / (length - 1)) for n in range(length)]
    assert legend == f"0.0000 to {length - 1:.4f}"


def test_sparklines_at_their_borders() -> None:
    assert sparkline([]) == ""
    assert sparkline([None, None]) == ""
    assert sparkline([0.5]) == "▁  0.5000 to 0.5000"
    assert sparkline([0.5, 0.5]) == "▁▁  0.5000 to 0.5000"
    assert sparkline([1.0, None, 0.0]) == "█ ▁  0.0000 to 1.0000"
    assert sparkline([-3.0, -1.0]) == "▁█  -3.0000 to -1.0000"
