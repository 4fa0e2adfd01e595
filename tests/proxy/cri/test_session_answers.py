"""Answers to relayed calls that are rewritten on their way."""

from __future__ import annotations

import pytest
from koord_proxy.contract.events import Route, Tally, Treatment
from koord_proxy.cri.session import CriSession
from koord_wire import frames

from tests.support.cri_playbook import Playbook
from tests.support.frames import ServerFrames, message
from tests.support.playbook import Backend, Client


def rewriting(instead: bytes | None) -> tuple[Playbook, list[bytes]]:
    """A session that gives the client another answer, and what it was asked about."""
    seen: list[bytes] = []
    play = Playbook(handshake=False)

    def answer(reported: bytes) -> bytes | None:
        seen.append(reported)
        return instead

    play.session = CriSession(lambda path: Route(Treatment.RELAY, Tally(), path, answer))
    hello, ack, settings = (
        play.client.settings(),
        play.client.settings_ack(),
        play.server.settings(),
    )
    assert (
        play
        >> Client(frames.PREFACE, hello)
        << Backend(hello)
        >> Backend(settings, ack)
        << Client(settings, ack)
        >> Client(ack)
        << Backend(ack)
    )
    assert play.relays(
        play.client.request(1, "/relay"), play.client.data(1, message(b"?"), end=True)
    )
    return play, seen


def test_a_smaller_answer_gives_the_backend_its_window_back() -> None:
    play, seen = rewriting(b"tiny")
    server = ServerFrames()
    began, ended = server.response(1), server.trailers(1)
    long, short = (
        server.data(1, message(b"rather long"), padding=3),
        server.data(1, message(b"tiny")),
    )
    credit = play.client.credit(0, (11 - 4) + (3 + 1))
    assert play >> Backend(began, long, ended) << Client(began, short, ended) << Backend(credit)
    assert seen == [b"rather long"]
    assert not play.session.busy


@pytest.mark.parametrize("instead", [None, b"a longer one"])
def test_an_answer_that_is_right_or_would_grow_goes_on_as_it_is(instead: bytes | None) -> None:
    play, _ = rewriting(instead)
    assert play.answers(ServerFrames().answer(1))


def test_an_answer_in_parts_goes_on_as_it_is() -> None:
    play, seen = rewriting(b"")
    server, whole = ServerFrames(), message(b"one and two")
    parts = server.data(1, whole[:8]), server.data(1, whole[8:])
    assert play.answers(server.response(1), *parts, server.trailers(1))
    assert seen == []


def test_a_compressed_answer_goes_on_as_it_is() -> None:
    play, seen = rewriting(b"")
    server = ServerFrames()
    assert play.answers(server.response(1), server.data(1, message(b"text", compressed=True)))
    assert seen == []
