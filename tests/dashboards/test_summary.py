import pytest

from detol.dashboards.summary import summary

FIGURES = {
    "name": "digits-1",
    "trials": 12,
    "trained": 9,
    "reused": 3,
    "stopped": 2,
    "failed": 0,
    "refused": 0,
    "epochs": 80,
    "epochs_spared": 15,
    "epochs_reused": 30,
    "seconds": 65.2,
    "objective": "val_accuracy",
    "best": {"trial": 7, "digest": "d1:0123456789abcdef0123456789abcdef", "score": 0.98765},
    "reference": {"trial": 0, "digest": "d1:ffff", "score": 0.96},
    "gain": 0.02765,
    "test": {"test_accuracy": 0.97, "test_log_loss": 0.11111},
    "ended": "all 12 trials are done",
}


def shown(screen, **changes) -> str:
    console = screen()
    summary(console, {**FIGURES, **changes})
    return console.text


def test_figures_of_a_search(screen) -> None:
    text = shown(screen)
    assert "digits-1: all 12 trials are done, 1:05 min" in text
    assert "trials:  12 (9 trained, 3 reused, 2 stopped)" in text  # what is none is left out
    assert "80 trained, 15 spared by stopping early, 30 answered from the database" in text
    assert "best:    trial 7, val_accuracy 0.9877, d1:0123456789abcdef\n" in text
    assert "best reference topology 0.9600 (trial 0): searching gained +0.0277" in text
    assert "test:    test_accuracy 0.9700, test_log_loss 0.1111" in text


def test_nothing_reused_is_said_and_failures_are_counted(screen) -> None:
    text = shown(screen, reused=0, stopped=0, failed=1, refused=4)
    assert "(9 trained, 0 reused, 1 failed, 4 refused)" in text


def test_a_reference_that_won(screen) -> None:
    reference = {**FIGURES["best"]}
    text = shown(screen, reference=reference, gain=0.0)
    assert "the search found nothing better" in text
    assert "gained" not in text


def test_another_network_as_good_as_the_reference(screen) -> None:
    reference = {**FIGURES["best"], "trial": 0}
    assert "(trial 0): the search found another one as good" in shown(screen, reference=reference, gain=0.0)


def test_a_search_without_a_winner_or_a_test(screen) -> None:
    text = shown(screen, best=None, reference=None, gain=None, test=None)
    assert "best:    none: no trial ended with a score" in text
    assert "test:" not in text
    assert "test:" not in shown(screen, test=None)
    assert "reference" not in shown(screen, reference=None, gain=None)


def test_the_front_of_several_objectives(screen) -> None:
    front = [
        {
            "trial": 3,
            "digest": "d1:a",
            "val_accuracy": 0.98,
            "params": 38466.0,
            "multiply_adds": 1e6,
            "inherited_from": 2,
        },
        {"trial": 5, "digest": "d1:b", "val_accuracy": 0.9, "params": 500.0},
    ]
    text = shown(screen, front=front)
    first = "trial 3: val_accuracy 0.9800, params 38,466, multiply_adds 1,000,000 (from the weights of trial 2)"
    assert f"front:   {first}\n         trial 5: val_accuracy 0.9000, params 500\n" in text
    assert "front:" not in shown(screen, front=[])


@pytest.mark.parametrize("name", ["[red]x[/red]", "[/]", "a[link=b]"])
def test_markup_is_text(screen, name) -> None:
    assert f"{name}: {name}," in shown(screen, name=name, ended=name)


def test_trials_that_went_on_elsewhere_are_said(screen) -> None:
    assert "2 trials went on from checkpoints of other searches" in shown(screen, continued=2)
    assert "went on" not in shown(screen, continued=0)


def test_a_minimised_objective_goes_by_its_name_and_small_figures_keep_their_digits(screen) -> None:
    best = {**FIGURES["best"], "score": 3.25e-12}
    text = shown(screen, objective="val_mse:min", best=best, test={"test_mse": 4.125e-12, "test_r2": 0.0})
    assert "trial 7, val_mse 3.25e-12, " in text
    assert "test:    test_mse 4.125e-12, test_r2 0.0000" in text
