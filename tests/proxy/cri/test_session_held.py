"""Calls whose request waits for a decision: read, then sent on, the same or another."""

from __future__ import annotations

import pytest
from koord_proxy.contract.events import CallEnded, RequestArrived

from tests.support import frames
from tests.support.cri_playbook import Failed, Playbook, arrived, credited, cut
from tests.support.frames import message
from tests.support.playbook import Backend, Client, Release

ASK = message(b"ask")


def collect(play: Playbook, stream: int, body: bytes, *, announced: bool = False) -> Playbook:
    """A client sends a held call of any size, in frames as large as they may be."""
    if not announced:
        play = play.relays(play.client.request(stream, "/hold"))
    *pieces, last = cut(body, 16_384)
    for piece in pieces:
        size = len(piece)
        play = play >> Client(play.client.data(stream, piece)) << credited(stream, size)
    return (
        play
        >> Client(play.client.data(stream, last, end=True))
        << arrived(stream, body[5:])
        << credited(0, len(last))
    )


class TestCollecting:
    def test_headers_go_at_once_and_data_waits(self, play, client):
        request = client.request(1, "/hold")
        assert play >> Client(request) << Backend(request)
        assert play >> Client(client.data(1, ASK[:4])) << credited(1, 4)
        assert (
            play
            >> Client(client.data(1, ASK[4:], end=True))
            << arrived(1, b"ask")
            << credited(0, 4)
        )
        assert play.session.busy
        assert not play.session.stalled

    def test_padding_is_credited_and_left_out(self, play, client):
        assert play.relays(client.request(1, "/hold", padding=9))
        assert play >> Client(client.data(1, ASK[:4], padding=100)) << credited(1, 105)
        assert (
            play
            >> Client(client.data(1, ASK[4:], end=True, padding=0))
            << arrived(1, b"ask")
            << credited(0, 5)
        )

    def test_the_end_may_come_with_nothing(self, play, client):
        assert play.relays(client.request(1, "/hold"))
        assert play >> Client(client.data(1, ASK)) << credited(1, 8) >> Client(client.data(1))
        assert play >> Client(client.data(1, end=True)) << arrived(1, b"ask")
        assert play >> Release(1) << Backend(client.data(1, ASK, end=True))

    def test_several_frames_in_one_chunk_are_credited_exactly(self, play, client):
        data = [client.data(1, ASK[i : i + 1]) for i in range(7)]
        assert play.relays(client.request(1, "/hold"))
        assert (
            play
            >> Client(*data, client.data(1, ASK[7:], end=True))
            << Client(*[client.credit(1, 1)] * 7, client.credit(0, 8))
            << arrived(1, b"ask")
        )

    def test_other_calls_flow_meanwhile(self, play, client, server):
        assert collect(play, 1, ASK)
        assert play.relays(
            client.request(3, "/relay"), client.data(3, ASK, end=True), client.ping()
        ).answers(server.answer(3), server.ping(ack=True))
        held = client.request(5, "/hold")
        assert (
            play
            >> Client(held, client.data(5, ASK, end=True))
            << Backend(held)
            << arrived(5, b"ask")
            << credited(0, 8)
        )
        assert play >> Release(5) << Backend(client.data(5, ASK, end=True))
        assert play >> Release(1) << Backend(client.data(1, ASK, end=True))

    def test_the_backends_credit_reaches_a_client_that_is_still_sending(self, play, server):
        """The client may use it; afterwards it could only make its window overflow."""
        assert (
            play.relays(play.client.request(1, "/hold"))
            .answers(server.credit(1, 1000))
            .relays(play.client.credit(1, 1000))
        )
        assert collect(play, 1, ASK, announced=True) >> Backend(server.credit(1, 1000))
        assert play >> Release(1) << Backend(play.client.data(1, ASK, end=True))
        assert play >> Backend(server.credit(1, 1000), server.credit(0, 8))

    def test_single_bytes_add_up(self):
        play = Playbook().byte_by_byte()
        assert (
            collect(play, 1, ASK) >> Release(1) << Backend(play.client.data(1, ASK, end=True))
        ).answers(play.server.answer(1)) << CallEnded(1, b"done")


class TestMalformed:
    @pytest.mark.parametrize(
        "body", [b"", b"\x00\x00\x00", ASK[:-1], ASK + b"!", ASK + ASK, b"\x00\xff\xff\xff\xff"]
    )
    def test_is_reported_and_goes_on_as_it_came(self, body, play, client):
        problem = f"{len(body)} bytes are not one gRPC message"
        credit = [client.credit(0, len(body))] if body else []
        assert play.relays(client.request(1, "/hold"))
        assert (
            play
            >> Client(client.data(1, body, end=True))
            << RequestArrived(1, "hold", None, True, problem)
            << Client(*credit)
        )
        assert play >> Release(1) << Backend(client.data(1, body, end=True))

    @pytest.mark.parametrize(
        ("payload", "code"), [(b"", frames.FRAME_SIZE_ERROR), (b"\x05pad", frames.PROTOCOL_ERROR)]
    )
    def test_padding_ends_the_connection(self, payload, code, play, client):
        assert play.relays(client.request(1, "/hold"))
        assert play >> Client(frames.frame(frames.DATA, frames.PADDED, 1, payload)) << Failed(code)


class TestReleasing:
    @pytest.mark.parametrize("size", [0, 1, 3, 16_379, 16_380, 60_000])
    def test_another_message_is_sent_in_place(self, size, play, client, server):
        body = message(bytes(size))
        *pieces, last = cut(body, 16_384)
        expected = [client.data(1, piece) for piece in pieces]
        assert collect(play, 1, ASK)
        assert play >> Release(1, bytes(size)) << Backend(*expected, client.data(1, last, end=True))
        assert play.answers(server.answer(1)) << CallEnded(1, b"done")
        assert not play.session.busy

    def test_what_the_client_sends_after_its_end_is_dropped(self, play, client, server):
        """It broke HTTP/2, and the backend must not get it in the midst of another message."""
        assert collect(play, 1, ASK) >> Client(client.data(1, b"more")) << credited(0, 4)
        assert play >> Release(1) << Backend(client.data(1, ASK, end=True))
        assert play >> Client(client.data(1, b"more"))
        assert play >> Backend(server.credit(0, 8)) << credited(0, 4)

    def test_frames_are_16_kib_even_if_more_is_allowed(self):
        play = Playbook(settings={frames.MAX_FRAME_SIZE: 100_000})
        assert collect(play, 1, ASK)
        assert (
            play
            >> Release(1, bytes(20_000))
            << Backend(
                play.client.data(1, message(bytes(20000))[:16384]),
                play.client.data(1, bytes(20005 - 16384), end=True),
            )
        )
