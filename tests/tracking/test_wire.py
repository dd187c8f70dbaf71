import io

import pytest

from detol.search.records import State
from detol.tracking.wire import Close, Epoch, Finish, Seen, receive, send


def frames(*messages: object) -> bytes:
    pipe = io.BytesIO()
    for message in messages:
        send(pipe, message)  # type: ignore[arg-type]
    return pipe.getvalue()


def test_messages_arrive_as_they_were_sent(trial) -> None:
    sent = trial(3, State.STOPPED)
    messages = [
        Seen(sent, 1.5),
        Epoch(3, sent.reports[0], 0.04, 2.5),
        Finish(sent, {"trials": 4, "best": {"score": 0.1}}),
        Close(),
    ]
    pipe = io.BytesIO(frames(*messages))
    assert [receive(pipe) for _ in messages] == messages
    assert receive(pipe) is None


@pytest.mark.parametrize("cut", [1, 3, 4, 5, -1])
def test_a_frame_that_is_cut_off_is_the_end(trial, cut: int) -> None:
    whole = frames(Seen(trial(0), 1.0))
    assert receive(io.BytesIO(whole[:cut])) is None
