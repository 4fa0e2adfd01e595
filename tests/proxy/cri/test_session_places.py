"""Where frames of our own may stand: not in a header block, not before the first SETTINGS."""

from __future__ import annotations

import pytest
from koord_proxy.contract.events import CallAbandoned
from koord_proxy.cri.draining import PING_PAYLOAD

from tests.proxy.cri.test_session_held import ASK, collect
from tests.proxy.cri.test_session_order import trailers_and_next
from tests.proxy.cri.test_session_windows import WINDOW
from tests.support import frames
from tests.support.cri_playbook import Failed, Playbook, Refuse, arrived
from tests.support.frames import ServerFrames
from tests.support.playbook import Backend, Client, Drain, Release


def farewell(server: ServerFrames) -> tuple[bytes, bytes]:
    """The first frame for a client that is to leave."""
    return server.goaway(2**31 - 1), server.ping(PING_PAYLOAD)


class TestHeaderBlocks:
    """Between HEADERS and its CONTINUATION nothing else may be sent, on any stream."""

    def parts(self, block: bytes) -> tuple[bytes, bytes, bytes]:
        found, _ = frames.read_frames(block)
        first, second, third = (
            frames.frame(part.kind, part.flags, part.stream, part.payload) for part in found
        )
        return first, second, third

    def test_of_the_client_are_not_interrupted(self, play, client, server):
        assert collect(play, 1, ASK)
        assert collect(play, 3, ASK)
        assert collect(play, 5, ASK)
        first, second, third = self.parts(client.request(7, "/relay", pieces=3))
        early = server.trailers_only(5, 12)
        assert play.relays(first) >> Release(1) >> Client(second) << Backend(second) >> Refuse(3)
        assert play >> Backend(early) << Client(early) << CallAbandoned(5)
        assert (
            play
            >> Client(third)
            << Backend(
                third,
                client.data(1, ASK, end=True),
                client.reset(3),
                client.settings(),
                client.reset(5),
            )
        )
        assert play.relays(client.request(9, "/relay", pieces=2))

    @pytest.mark.parametrize("kind", ["response", "trailers", "push promise"])
    def test_of_the_backend_are_not_interrupted(self, kind, play, client, server):
        assert play.relays(client.request(1, "/relay"))
        held = client.request(3, "/hold")
        block = {
            "response": lambda: server.response(1, pieces=3),
            "trailers": lambda: server.trailers(1, pieces=3),
            "push promise": lambda: server.push_promise(1, 2, [(":path", "/x")], pieces=3),
        }[kind]()
        first, second, third = self.parts(block)
        assert play.answers(first) >> Client(held, client.data(3, ASK[:4])) << Backend(held)
        assert play >> Backend(second) << Client(second) >> Drain()
        assert play >> Client(client.data(3, ASK[4:], end=True)) << arrived(3, b"ask")
        assert (
            play
            >> Backend(third, server.ping())
            << Client(
                third,
                client.credit(3, 4),
                client.credit(0, 4),
                *farewell(server),
                client.credit(0, 4),
                server.ping(),
            )
        )

    def test_of_the_backend_are_followed_by_credit_for_all_that_was_read(
        self, play, client, server
    ):
        assert play.relays(client.request(1, "/relay"), client.request(3, "/hold"))
        first, second, third = self.parts(server.response(1, pieces=3))
        assert play.answers(first)
        for _ in range(WINDOW // 16_384):
            assert play >> Client(client.data(3, bytes(16_384)))
        assert (
            play
            >> Backend(second, third)
            << Client(
                second,
                third,
                *[client.credit(3, 16384), client.credit(0, 16384)] * (WINDOW // 16384),
            )
        )

    def test_end_a_stall_only_when_they_are_whole(self):
        """A client that stalls is not read, so the block is the backend's."""
        play, trailers, following = trailers_and_next(Playbook())
        first, second, third = self.parts(play.server.response(1, pieces=3))
        assert play.answers(first)
        assert play >> Release(1) << Backend(play.client.data(1, ASK), trailers, following)
        assert play >> Backend(second, third) << Client(second, third)

    @pytest.mark.parametrize(
        "inside",
        [
            "data",
            "headers",
            "priority",
            "reset",
            "settings",
            "settings_ack",
            "ping",
            "goaway",
            "credit",
        ],
    )
    def test_of_the_client_may_hold_nothing_else(self, inside, play, client):
        assert play.relays(client.request(1, "/hold"))
        frame = {
            "data": lambda: client.data(1, b"x"),
            "headers": lambda: client.request(5, "/relay"),
            "priority": lambda: client.priority(1),
            "reset": lambda: client.reset(1),
            "settings": client.settings,
            "settings_ack": client.settings_ack,
            "ping": client.ping,
            "goaway": lambda: client.goaway(0),
            "credit": lambda: client.credit(1, 5),
        }[inside]()
        first, *_ = self.parts(client.request(3, "/relay", pieces=3))
        assert play.relays(first) >> Client(frame) << Failed(frames.PROTOCOL_ERROR)


class TestFirstSettings:
    """A client takes no frame before the backend's first SETTINGS."""

    def start(self) -> Playbook:
        play = Playbook(handshake=False)
        hello = play.client.settings()
        request = play.client.request(1, "/hold")
        return (
            play
            >> Client(frames.PREFACE, hello, request, play.client.data(1, ASK[:4]))
            << Backend(hello, request)
        )

    def test_come_before_credit(self):
        play = self.start()
        client, server = play.client, play.server
        assert play >> Client(client.data(1, ASK[4:], end=True)) << arrived(1, b"ask")
        assert (
            play
            >> Backend(server.settings({3: 100}), server.ping())
            << Client(
                server.settings({3: 100}),
                client.credit(1, 4),
                client.credit(0, 4),
                client.credit(0, 4),
                server.ping(),
            )
        )

    def test_come_before_a_farewell(self):
        play = self.start()
        client, server = play.client, play.server
        credit = client.credit(1, 4), client.credit(0, 4)
        assert play >> Drain()
        assert (
            play
            >> Backend(server.settings())
            << Client(server.settings(), *credit, *farewell(server))
        )

    def test_are_ours_when_it_fails_before(self):
        play = self.start()
        assert (
            play
            >> Client(b"\xff" * 9)
            << Client(play.server.settings())
            << Failed(frames.FRAME_SIZE_ERROR)
        )
