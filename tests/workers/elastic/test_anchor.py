"""Back to the last state that is known to be good; a device that works behind the host's back is played by marks."""

import pytest
import torch
from torch import nn

from detol.errors import WorkerLost
from detol.search.recipe import Recipe
from detol.workers.communication import communicate
from detol.workers.elastic.anchor import Anchor
from detol.workers.optim import Optimiser
from detol.workers.stepping.epoch import Position


class Device:
    """Its marks are passed when the test says so."""

    def __init__(self):
        self.marks, self.reached = 0, 0

    def mark(self):
        self.marks += 1
        return Point(self, self.marks)


class Point:
    def __init__(self, device, number):
        self.device, self.number = device, number

    def query(self):
        return self.number <= self.device.reached

    def synchronize(self):
        self.device.reached = max(self.device.reached, self.number)


def made(recipe=Recipe(optimiser="adamw"), **settings):  # noqa: B008  frozen
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    communication = communicate(model, recipe, 2)
    optimiser = Optimiser(model, communication.local(recipe))
    return model, optimiser, Anchor(model, optimiser, communication, **settings)


def move(model, optimiser, seed):
    generator = torch.Generator().manual_seed(seed)
    model(torch.randn(5, 4, generator=generator)).square().sum().backward()
    optimiser.step(0.1)


def state(model, optimiser):
    tensors = {**model.state_dict(), **{f"optimiser.{name}": t for name, t in optimiser.tensors().items()}}
    return {name: tensor.clone() for name, tensor in tensors.items()}


def equal(one, two):
    return one.keys() == two.keys() and all(torch.equal(tensor, two[name]) for name, tensor in one.items())


def test_on_the_cpu_the_statistics_of_a_step_that_failed_are_put_back():
    model, optimiser, anchor = made()
    position = Position(1)
    before = state(model, optimiser)
    anchor.before(position)
    model(torch.randn(5, 4))
    assert not equal(state(model, optimiser), before)
    assert anchor.recover(position) == position
    assert equal(state(model, optimiser), before)


def test_a_step_that_is_over_stays():
    model, optimiser, anchor = made()
    position = Position(1)
    anchor.before(position)
    move(model, optimiser, 1)
    position.advance(torch.tensor(2.0), 5)
    anchor.after()
    after = state(model, optimiser)
    assert anchor.recover(position) == Position(1, 1, torch.tensor(2.0), 5)
    assert equal(state(model, optimiser), after)


def steps(count, **settings):
    """Take steps of which the host alone knows that they are over; return the state before each and after the last."""
    device = Device()
    model, optimiser, anchor = made(whole=True, mark=device.mark, **settings)
    position, states = Position(1), []
    for step in range(count):
        states.append(state(model, optimiser))
        anchor.before(position)
        move(model, optimiser, step)
        position.advance(torch.tensor(1.0), 5)
        anchor.after()
    return device, model, optimiser, anchor, position, [*states, state(model, optimiser)]


@pytest.mark.parametrize(
    ("reached", "step"),
    [
        pytest.param(8, 4, id="all"),
        pytest.param(7, 3, id="not the last step"),
        pytest.param(6, 2, id="not even the copy before it"),
        pytest.param(5, 2, id="what was waited for before the last copy"),
    ],
)
def test_it_goes_back_to_the_latest_state_that_the_device_came_to(reached, step):
    device, model, optimiser, anchor, position, states = steps(4)
    device.reached = reached
    found = anchor.recover(position)
    assert (found.step, found.samples) == (step, 5 * step)
    assert float(found.loss) == step
    assert equal(state(model, optimiser), states[step])


def test_the_host_never_runs_ahead_by_more_than_a_step():
    device, *_ = steps(4)
    assert device.reached == 5  # the mark of the copy before the third step: two marks a step


def test_it_never_goes_back_behind_a_report_that_stands():
    """An epoch is told when it is over: what is lost of the step after it must not cost the last one before it."""
    device, model, optimiser, anchor, _, states = steps(4)
    assert device.reached == 5
    anchor.before(Position(2))
    move(model, optimiser, 4)
    assert anchor.recover(Position(2)) == Position(2)
    assert equal(state(model, optimiser), states[4])


def test_the_very_first_step_can_be_gone_back_to_however_far_behind_the_device_is():
    model, optimiser, anchor = made(whole=True, mark=Device().mark)
    before = state(model, optimiser)
    anchor.before(Position(1))
    move(model, optimiser, 0)
    assert anchor.recover(Position(1)) == Position(1)
    assert equal(state(model, optimiser), before)


def test_a_step_that_was_broken_off_under_way_is_none_though_the_host_comes_to_its_end():
    """Aborted, an exchange lets the device go on, by gradients that never were."""
    device = Device()
    model, optimiser, anchor = made(whole=True, mark=device.mark)
    before = state(model, optimiser)
    anchor.before(Position(1))
    anchor.freeze()
    move(model, optimiser, 0)
    anchor.after()
    device.reached = device.marks
    assert anchor.recover(Position(1, 1)) == Position(1)
    assert equal(state(model, optimiser), before)


class Interrupted(Point):
    """While it is waited for, another thread finds out that the group is broken."""

    def synchronize(self):
        self.device.anchor.freeze()
        super().synchronize()


@pytest.mark.parametrize("step", [0, 4])
def test_a_group_that_breaks_while_a_state_is_kept_is_noticed(step):
    """Behind the last step, whose end the device has come to by then or not."""
    device, model, optimiser, anchor, position, states = steps(4)
    device.anchor, device.reached = anchor, device.marks
    anchor._mark = lambda: Interrupted(device, device.mark().number)
    if step:
        anchor._kept[-1].mark = Interrupted(device, anchor._kept[-1].mark.number)
    at = Position(2) if step == 0 else position
    with pytest.raises(WorkerLost, match="broken off"):
        anchor.before(at)
    assert anchor.recover(at) == at
    assert equal(state(model, optimiser), states[4])


def test_the_first_state_in_a_group_is_waited_for_wherever_it_is():
    device, model, optimiser, anchor, position, _ = steps(4)
    device.reached = device.marks
    anchor.recover(position)
    anchor.thaw()
    before = state(model, optimiser)
    anchor.before(position)
    move(model, optimiser, 9)
    assert anchor.recover(position) == position
    assert equal(state(model, optimiser), before)


def test_what_else_a_step_changes_goes_back_too():
    kept = torch.ones(3)
    _, _, anchor = made(whole=True, mark=Device().mark, also={"0": kept})
    anchor.before(Position(1))
    kept.zero_()
    anchor.recover(Position(1))
    assert torch.equal(kept, torch.ones(3))


def test_before_the_first_step_the_optimiser_remembers_nothing():
    device, model, optimiser, anchor, position, states = steps(1)
    device.reached = 1
    assert anchor.recover(position).step == 0
    assert not optimiser.tensors()
    assert equal(state(model, optimiser), states[0])


def test_what_counts_is_what_was_good_before_the_calls_were_broken_off():
    device, model, optimiser, anchor, position, states = steps(4)
    device.reached = 7
    anchor.freeze()
    device.reached = 8  # broken off, the kernels end, and the optimiser moves by what is no gradient
    with pytest.raises(WorkerLost, match="broken off"):
        anchor.before(position)
    assert anchor.recover(position).step == 3
    assert equal(state(model, optimiser), states[3])
    anchor.thaw()
    anchor.before(position)


def test_a_state_that_cannot_be_known_is_no_state():
    device, _, _, anchor, position, _ = steps(1)
    device.reached = 0
    with pytest.raises(WorkerLost, match="no state is left"):
        anchor.recover(position)


def test_what_a_way_of_communication_remembers_goes_back_too():
    model, optimiser, anchor = made(Recipe(communication="topk:0.2", optimiser="sgd"))
    memory = anchor._communication
    memory._residual = {0: torch.ones(3, 4)}
    anchor.before(Position(1))
    memory._residual[0].zero_()
    move(model, optimiser, 1)
    anchor.recover(Position(1))
    assert torch.equal(memory._residual[0], torch.ones(3, 4))
