"""Who gets a place, and who has to end for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from koord_service import connection_places
from koord_service.connection_places import ConnectionPlaces

from tests.support.processes import PATIENCE


class Client:
    """A connection, and a thread that serves it until it ends, as a server's would."""

    def __init__(self, places: ConnectionPlaces, peer: str, *, bounded: bool = False) -> None:
        self.near, self._far = socket.socketpair()
        self._places = places
        self._thread = threading.Thread(target=self._serve)
        self.admitted = places.take(self._far, peer, bounded=bounded)
        if self.admitted:
            self._thread.start()

    @property
    def ended(self) -> bool:
        self.near.settimeout(0)
        try:
            return self.near.recv(1) == b""
        except BlockingIOError:
            return False

    def close(self) -> None:
        self.near.close()
        if self.admitted:
            self._thread.join(PATIENCE)
        self._far.close()

    def _serve(self) -> None:
        self._far.recv(1)
        self._places.give_back(self._far)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_places, "_WAIT_SECONDS", PATIENCE)


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def came(
    clients: ExitStack, places: ConnectionPlaces, peers: str, *, bounded: bool = False
) -> list[Client]:
    """One client after the other, each of the peer that a letter names."""
    made = [Client(places, peer, bounded=bounded) for peer in peers]
    for one in made:
        clients.callback(one.close)
    return made


@pytest.mark.parametrize(
    ("peers", "ended"),
    [
        ("abcd", ()),
        ("aaaab", (0,)),
        ("baaab", (1,)),  # of whom holds most, not of the one that was first
        ("abcda", (0,)),  # where all hold the same, the first
        ("aaaaaa", (0, 1)),
        ("bacaab", (1,)),
    ],
)
def test_of_all(clients: ExitStack, peers: str, ended: tuple[int, ...]) -> None:
    total = 4 if peers != "bacaab" else 5
    made = came(clients, ConnectionPlaces(total, 4), peers)
    assert all(one.admitted for one in made)
    assert tuple(i for i, one in enumerate(made) if one.ended) == ended


@pytest.mark.parametrize(("peers", "ended"), [("aab", ()), ("baa", ()), ("baaa", (1,))])
def test_of_one_peer(clients: ExitStack, peers: str, ended: tuple[int, ...]) -> None:
    made = came(clients, ConnectionPlaces(10, 2), peers, bounded=True)
    assert all(one.admitted for one in made)
    assert tuple(i for i, one in enumerate(made) if one.ended) == ended


def test_whoever_is_still_worked_for_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_places, "_WAIT_SECONDS", 0.01)
    places = ConnectionPlaces(1, 1)
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(end) for end in _ends(stack, 3))
        assert places.take(first, "a", bounded=False)
        assert not places.take(second, "b", bounded=False)
        places.give_back(first)
        assert places.take(third, "b", bounded=False)
        places.give_back(third)


def _ends(stack: ExitStack, number: int) -> Iterator[socket.socket]:
    for _ in range(number):
        near, far = socket.socketpair()
        stack.enter_context(near)
        yield far
