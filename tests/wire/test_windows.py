from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from koord_wire.frames import FLOW_CONTROL_ERROR, ProtocolError
from koord_wire.windows import ConnectionWindow


@pytest.fixture
def window() -> ConnectionWindow:
    return ConnectionWindow()


def test_begins_as_the_rfc_says(window):
    assert (window.room, window.debt, window.queued) == (65_535, 0, 0)
    window.arrived(65_535)
    with pytest.raises(ProtocolError, match="65536 bytes") as caught:
        window.arrived(65_536)
    assert caught.value.code == FLOW_CONTROL_ERROR


def test_what_is_taken_is_owed_at_once(window):
    window.taken(100)
    assert window.owed() == 100
    assert window.owed() == 0


def test_what_is_put_is_swallowed_of_the_backends_credit(window):
    window.put(100)
    window.sent(100)
    assert window.room == 65_435
    window.credited(60)
    assert window.owed() == 0
    window.credited(60)
    assert window.owed() == 20
    assert window.room == 65_555


def test_what_waits_takes_of_the_clients_window(window):
    window.queue(65_000)
    window.arrived(535)
    with pytest.raises(ProtocolError):
        window.arrived(536)


class Books(RuleBasedStateMachine):
    """The two peers' own books, kept beside ours."""

    def __init__(self) -> None:
        super().__init__()
        self.window = ConnectionWindow()
        self.client = self.backend = 65_535
        self.waiting = 0

    def settle(self) -> None:
        self.client += self.window.owed()

    @precondition(lambda self: self.client)
    @rule(data=st.data(), what=st.sampled_from(["on", "hold", "wait"]))
    def client_sends(self, data: st.DataObject, what: str) -> None:
        size = data.draw(st.integers(1, self.client))
        self.window.arrived(size)
        self.client -= size
        if what == "hold":
            self.window.taken(size)
        elif what == "on" and size <= self.window.room:
            self.window.room -= size
            self.backend -= size
        else:
            self.window.queue(size)
            self.waiting += size
        self.settle()

    @rule(size=st.integers(0, 100_000))
    def we_put(self, size: int) -> None:
        self.window.put(size)
        self.waiting += size
        self.settle()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def we_send(self, data: st.DataObject) -> None:
        size = data.draw(st.integers(0, min(self.waiting, self.window.room)))
        self.window.sent(size)
        self.waiting -= size
        self.backend -= size
        self.settle()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def we_drop(self, data: st.DataObject) -> None:
        size = data.draw(st.integers(0, self.waiting))
        self.window.dropped(size)
        self.waiting -= size
        self.settle()

    @rule(data=st.data())
    def backend_credits(self, data: st.DataObject) -> None:
        size = data.draw(st.integers(1, max(1, min(100_000, 2**31 - 1 - self.backend))))
        self.window.credited(size)
        self.backend += size
        self.settle()

    @invariant()
    def books_agree(self) -> None:
        assert self.window.room == self.backend >= 0
        assert self.window.queued == self.waiting
        assert self.window.debt >= 0
        assert self.client == self.window.room + self.window.debt - self.window.queued >= 0
        assert self.client <= 2**31 - 1


TestBooks = Books.TestCase
