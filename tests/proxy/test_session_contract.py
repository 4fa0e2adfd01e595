"""The contract of sessions, for both wires: what the shell hears, and which decisions count."""

from __future__ import annotations

from typing import Any

import pytest
from koord_proxy.contract.events import CallAbandoned, CallEnded, RequestArrived, SessionEvent

from tests.support import cri_playbook, docker_playbook
from tests.support.frames import message


class CriWire:
    """A call on HTTP/2; ``ask`` sends the request, or a part of it."""

    def __init__(self) -> None:
        self._play = cri_playbook.Playbook()
        self.session = self._play.session

    def ask(self, how: str, *, part: bool = False) -> None:
        client, body = self._play.client, message(b"ask")
        data = client.data(1, body[:4]) if part else client.data(1, body, end=True)
        self.session.receive_from_client(client.request(1, f"/{how}") + data)

    def answer(self) -> None:
        self.session.receive_from_backend(self._play.server.answer(1))


class DockerWire:
    """A call on HTTP/1.1."""

    def __init__(self) -> None:
        self.session = docker_playbook.Playbook().session

    def ask(self, how: str, *, part: bool = False) -> None:
        data = docker_playbook.post(f"/{how}/create", b"ask")
        self.session.receive_from_client(data[:-1] if part else data)

    def answer(self) -> None:
        self.session.receive_from_backend(docker_playbook.answer(201, b"done"))


@pytest.fixture(params=[CriWire, DockerWire], ids=["cri", "docker"])
def wire(request: pytest.FixtureRequest) -> Any:
    return request.param()


def heard(wire: Any) -> list[SessionEvent]:
    """What the shell hears."""
    found = wire.session.requests.copy()
    wire.session.requests.clear()
    return found


def stand(wire: Any, how: str) -> None:
    """Bring a call to where it is relayed, watched, held, ..."""
    treatment = {"released": "hold", "refused": "hold"}.get(how, how.removesuffix(" in part"))
    wire.ask(treatment, part=how.endswith("in part"))
    if how == "released":
        wire.session.release(1)
    elif how == "refused":
        wire.session.refuse(1, "no")


@pytest.mark.parametrize("decision", ["release", "change"])
def test_a_held_call_goes_on_when_it_is_released(wire, decision):
    wire.ask("hold")
    [asked] = heard(wire)
    assert isinstance(asked, RequestArrived)
    assert (asked.stream, asked.message, asked.held) == (1, b"ask", True)
    assert b"ask" not in b"".join(wire.session.to_backend)
    wire.session.release(1, None if decision == "release" else b"other")
    sent = b"".join(wire.session.to_backend)
    assert (b"ask" in sent, b"other" in sent) == (decision == "release", decision == "change")
    wire.session.drain()
    assert not wire.session.drained
    wire.answer()
    assert heard(wire) == [CallEnded(1, b"done")]
    assert not wire.session.busy


def test_a_watched_call_goes_on_at_once(wire):
    wire.ask("watch")
    [asked] = heard(wire)
    assert (asked.message, asked.held) == (b"ask", False)
    assert b"ask" in b"".join(wire.session.to_backend)
    wire.answer()
    assert heard(wire) == [CallEnded(1, b"done")]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("relay", []),
        ("watch", [CallEnded(1, None)]),
        ("hold in part", []),
        ("hold", [CallAbandoned(1)]),
        ("released", [CallEnded(1, None)]),
        ("refused", []),
    ],
)
def test_what_is_heard_when_the_connection_is_gone(wire, how, expected):
    stand(wire, how)
    heard(wire)
    wire.session.abandon()
    wire.session.abandon()
    assert heard(wire) == expected
    assert not wire.session.busy
    nothing_comes_of_decisions(wire)


@pytest.mark.parametrize("how", ["relay", "watch", "hold in part", "released", "refused"])
def test_a_decision_counts_only_while_a_call_waits_for_it(wire, how):
    stand(wire, how)
    heard(wire)
    nothing_comes_of_decisions(wire)


def nothing_comes_of_decisions(wire: Any) -> None:
    session = wire.session
    before = list(session.to_client), list(session.to_backend)
    for stream in (1, 3):
        session.release(stream)
        session.release(stream, b"other")
        session.refuse(stream, "no")
    assert (session.to_client, session.to_backend) == before
    assert heard(wire) == []
