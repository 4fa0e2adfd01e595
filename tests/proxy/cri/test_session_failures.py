"""Peers that break HTTP/2 where it cannot be passed on: they get the reason, then cut off."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from koord_proxy.contract.events import CallAbandoned, CallEnded

from tests.proxy.cri.test_session_held import ASK, collect
from tests.proxy.cri.test_session_windows import released
from tests.support import frames
from tests.support.cri_playbook import Failed, Playbook, Refuse, arrived
from tests.support.frames import message
from tests.support.playbook import Backend, Client, Drain, Gone, Release


class TestPreface:
    @pytest.mark.parametrize(
        "sent",
        [
            b"GET / HTTP/1.1\r\n\r\n",
            b"X",
            b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n",
            b"\x16\x03\x01\x02\x00",
            frames.PREFACE[:-1] + b"!",
        ],
    )
    def test_must_be_that_of_http2(self, sent):
        play = Playbook(handshake=False)
        hello = Client(play.server.settings())
        assert play >> Client(sent) << hello << Failed(frames.PROTOCOL_ERROR)

    def test_may_not_be_left_out(self):
        play = Playbook(handshake=False)
        hello = Client(play.server.settings())
        sent = Client(play.client.settings())
        assert play >> sent << hello << Failed(frames.PROTOCOL_ERROR)


def _headers(block: bytes) -> Callable[[Playbook], bytes]:
    return lambda play: play.client.block(1, block)


def _of(kind: int, flags: int, payload: bytes) -> Callable[[Playbook], bytes]:
    return lambda _: frames.frame(kind, flags, 1, payload)


FROM_CLIENT = {
    "an index beyond the table": (_headers(b"\xbe"), frames.COMPRESSION_ERROR),
    "an index of zero": (_headers(b"\x80"), frames.COMPRESSION_ERROR),
    "a block cut short": (_headers(b"\x00\x05abc"), frames.COMPRESSION_ERROR),
    "a number without end": (_headers(b"\xff" * 100), frames.COMPRESSION_ERROR),
    "a block of half a number": (_headers(b"\x7f"), frames.COMPRESSION_ERROR),
    "huffman code that is none": (_headers(b"\x00\x84\xff\xff\xff\xff\x00"), 9),
    "a table larger than allowed": (_headers(frames.table_size(4097)), 9),
    "a table size behind a field": (_headers(b"\x82" + frames.table_size(10)), 9),
    "HEADERS with no padding length": (_of(frames.HEADERS, 0xC, b""), frames.FRAME_SIZE_ERROR),
    "HEADERS of too much padding": (_of(frames.HEADERS, 0xC, b"\x02\x82"), 1),
    "HEADERS with half a priority": (_of(frames.HEADERS, 0x24, b"\x00\x00"), 1),
    "HEADERS on no stream": (lambda play: play.client.request(0, "/hold"), frames.PROTOCOL_ERROR),
    "CONTINUATION of nothing": (_of(frames.CONTINUATION, 4, b"\x82"), frames.PROTOCOL_ERROR),
    "SETTINGS cut short": (_of(frames.SETTINGS, 0, bytes(7)), frames.FRAME_SIZE_ERROR),
}


class TestClient:
    @pytest.mark.parametrize("what", FROM_CLIENT)
    def test_sends(self, what):
        make, code = FROM_CLIENT[what]
        play = Playbook()
        assert play >> Client(make(play)) << Failed(code)

    def test_sends_continuation_of_another_stream(self, play):
        first = frames.frame(frames.HEADERS, 0, 1, b"\x82")
        other = frames.frame(frames.CONTINUATION, 4, 3, b"\x82")
        assert play.relays(first) >> Client(other) << Failed(frames.PROTOCOL_ERROR)

    def test_sends_a_header_block_of_over_256_kib(self, play):
        piece = bytes(16_384)
        assert play.relays(frames.frame(frames.HEADERS, 0, 1, piece))
        for _ in range(15):
            assert play.relays(frames.frame(frames.CONTINUATION, 0, 1, piece))
        play = play.relays(frames.frame(frames.CONTINUATION, 0, 1))
        assert (
            play
            >> Client(frames.frame(frames.CONTINUATION, 0, 1, b"!"))
            << Failed(frames.ENHANCE_YOUR_CALM)
        )

    def test_sends_a_few_bytes_that_are_a_megabyte_of_headers(self, play, client):
        entry = b"\x40" + frames.literals([("x", "y" * 4000)])[1:]
        assert (
            play
            >> Client(client.block(1, entry + b"\xbe" * 300))
            << Failed(frames.COMPRESSION_ERROR)
        )


class TestBackend:
    @pytest.mark.parametrize(
        ("frame", "code"),
        [
            (frames.frame(frames.SETTINGS, 0, 0, bytes(5)), frames.FRAME_SIZE_ERROR),
            (frames.frame(frames.DATA, 8, 1, b"\x09abc"), frames.PROTOCOL_ERROR),
            (frames.frame(frames.DATA, 8, 1, b""), frames.FRAME_SIZE_ERROR),
            (b"\xff" * 9, frames.FRAME_SIZE_ERROR),
            (frames.frame(frames.WINDOW_UPDATE, 0, 0, bytes(3)), frames.FRAME_SIZE_ERROR),
            (frames.frame(frames.WINDOW_UPDATE, 0, 1, bytes(5)), frames.FRAME_SIZE_ERROR),
            (frames.frame(frames.GOAWAY, 0, 0, bytes(7)), frames.FRAME_SIZE_ERROR),
        ],
    )
    def test_sends(self, frame, code, play, client):
        assert play.relays(client.request(1, "/hold"))
        assert play >> Backend(frame) << Failed(code)

    def test_sends_an_answer_first_in_the_same_read(self, play, client, server):
        last = client.data(1, ASK, end=True)
        assert play.relays(client.request(1, "/watch"))
        assert play >> Client(last) << Backend(last) << arrived(1, b"ask", method="watch")
        answer = server.answer(1)
        assert (
            play
            >> Backend(answer, b"\xff" * 9)
            << Client(answer)
            << CallEnded(1, b"done")
            << Failed(frames.FRAME_SIZE_ERROR)
        )


class TestFailure:
    def test_ends_every_call(self, play, client):
        assert play.relays(
            client.request(1, "/relay"), client.request(3, "/watch"), client.request(5, "/hold")
        )
        assert collect(play, 7, ASK)
        assert released(play, 9, message(b"."))
        assert (
            play
            >> Client(frames.frame(frames.CONTINUATION, 0, 1))
            << CallEnded(3, None)
            << CallAbandoned(7)
            << CallEnded(9, None)
            << Failed(frames.PROTOCOL_ERROR)
        )
        assert not play.session.busy

    def test_is_the_end(self, play, client, server):
        assert collect(play, 1, ASK)
        assert play >> Client(b"\xff" * 9) << CallAbandoned(1) << Failed(frames.FRAME_SIZE_ERROR)
        assert play >> Client(client.ping()) >> Backend(server.ping(), server.settings())
        assert play >> Release(1) >> Refuse(1) >> Drain() >> Gone()

    def test_says_what_was_wrong(self, play):
        play.session.receive_from_client(b"\x00\xff\xff" + bytes(6))
        assert str(play.session.failed) == "a frame of 65535 bytes; 16384 are allowed"
