"""What is read of calls: requests that pass by, messages in compression, responses."""

from __future__ import annotations

import gzip
import zlib

import pytest
from koord_proxy.contract.events import CallEnded, RequestArrived
from koord_proxy.cri import limits

from tests.proxy.cri.test_session_held import ASK, collect
from tests.proxy.cri.test_session_windows import full
from tests.support.cri_playbook import Backend, Client, Playbook, Release, arrived, cut
from tests.support.frames import message

BOMB = gzip.compress(bytes((16 << 20) + 1))


class TestWatching:
    def test_passes_everything_at_once(self):
        play = Playbook()
        client, server = play.client, play.server
        last = client.data(1, ASK[6:], end=True)
        assert play.relays(client.request(1, "/watch"), client.data(1, ASK[:6], padding=3))
        assert (
            play >> Client(last) << Backend(last) << arrived(1, b"ask", method="watch")
        ).answers(server.credit(1, 12), server.credit(0, 12)).answers(
            server.answer(1)
        ) << CallEnded(1, b"done")
        assert not play.session.busy
        assert play.session._state.held_bytes == 0

    def test_several_calls_at_a_time(self):
        play = Playbook()
        client, server = play.client, play.server
        asks = {stream: message(b"ask %d" % stream) for stream in (1, 3, 5)}
        for stream, body in asks.items():
            assert play.relays(client.request(stream, "/watch"), client.data(stream, body[:3]))
        for stream, body in reversed(asks.items()):
            last = client.data(stream, body[3:], end=True)
            request = arrived(stream, b"ask %d" % stream, method="watch")
            assert play >> Client(last) << Backend(last) << request
        for stream in (3, 1, 5):
            answer = server.answer(stream, b"done %d" % stream)
            assert play.answers(answer) << CallEnded(stream, b"done %d" % stream)

    def test_a_malformed_request_is_told(self):
        play = Playbook()
        last = play.client.data(1, b"junk", end=True)
        problem = "4 bytes are not one gRPC message"
        assert (
            play.relays(play.client.request(1, "/watch"))
            >> Client(last)
            << Backend(last)
            << RequestArrived(1, "watch", None, False, problem)
        )

    @pytest.mark.parametrize("limit", ["message", "connection"])
    def test_a_large_request_passes_unread(self, limit, monkeypatch):
        if limit == "message":
            monkeypatch.setattr(limits, "MAX_MESSAGE", 100)
        else:
            monkeypatch.setattr(limits, "MAX_HELD", 100)
        play = Playbook()
        client = play.client
        assert play.relays(client.request(1, "/watch"))
        for _ in range(20):
            assert play.relays(client.data(1, bytes(50)))
        assert play.session._state.held_bytes <= 150
        last = client.data(1, b"", end=True)
        play = play >> Client(last) << Backend(last)
        (request,) = play.requests
        assert request.message is None
        assert "are not one gRPC message" in request.problem
        assert play.session._state.held_bytes == 0

    def test_without_room_waits_like_any_other(self):
        play = Playbook()
        play = full(Playbook())
        assert play.relays(play.client.request(3, "/watch"))
        assert (
            play
            >> Client(play.client.data(3, ASK, end=True))
            << arrived(3, b"ask", method="watch")
            >> Backend(play.server.credit(0, 8))
            << Backend(play.client.data(3, ASK, end=True))
        )


class TestCompressed:
    @pytest.mark.parametrize(
        ("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
    )
    def test_requests_are_read_and_go_on_as_they_came(self, encoding, compress):
        play = Playbook()
        client = play.client
        body = message(compress(b"ask" * 50), compressed=True)
        assert (
            play.relays(client.request(1, "/hold", [("grpc-encoding", encoding)]))
            >> Client(client.data(1, body, end=True))
            << arrived(1, b"ask" * 50)
            << Client(client.credit(0, len(body)))
            >> Release(1)
            << Backend(client.data(1, body, end=True))
        )

    def test_a_changed_message_is_sent_plain(self):
        """Which any receiver understands, whatever encoding the call named."""
        play = Playbook()
        client = play.client
        body = message(gzip.compress(b"ask"), compressed=True)
        assert (
            play.relays(client.request(1, "/hold", [("grpc-encoding", "gzip")]))
            >> Client(client.data(1, body, end=True))
            << arrived(1, b"ask")
            << Client(client.credit(0, len(body)))
            >> Release(1, b"other")
            << Backend(client.data(1, message(b"other"), end=True))
        )

    def test_an_encoding_may_be_named_and_not_used(self):
        play = Playbook()
        client = play.client
        assert play.relays(client.request(1, "/hold", [("grpc-encoding", "snappy")]))
        assert collect(play, 1, ASK, announced=True)

    @pytest.mark.parametrize(
        ("encoding", "payload", "problem"),
        [
            ("snappy", b"\x03\x08ask", "grpc-encoding 'snappy' is not known here"),
            ("gzip", BOMB, "gzip: cut short, or more than 16777216 bytes"),
            (
                "gzip",
                gzip.compress(b"ask", mtime=0)[:-1],
                "gzip: cut short, or more than 16777216 bytes",
            ),
            ("deflate", b"junk", "deflate: Error -3 while decompressing data"),
        ],
    )
    def test_what_cannot_be_read_is_told(self, encoding, payload, problem):
        play = Playbook()
        client = play.client
        body = message(payload, compressed=True)
        assert play.relays(client.request(1, "/hold", [("grpc-encoding", encoding)]))
        play = play >> Client(client.data(1, body, end=True)) << Client(client.credit(0, len(body)))
        request = play.requests.pop()
        assert request.message is None
        assert request.problem.startswith(problem)
        # It is the backend's to judge.
        sized = play >> Release(1)
        assert b"".join(frame.payload for frame in sized.to_backend.frames) == body


class TestResponses:
    def answer(self, how: str, play: Playbook) -> tuple[bytes, bytes | None]:
        """A response, and what is read of it."""
        server = play.server
        done, large = message(b"done"), message(bytes((1 << 20) + 20_000))
        return {
            "success": lambda: (server.answer(1), b"done"),
            "success with nothing in it": lambda: (server.answer(1, b""), b""),
            "in pieces": lambda: (
                server.response(1)
                + server.data(1, done[:3], padding=9)
                + server.data(1, done[3:])
                + server.trailers(1),
                b"done",
            ),
            "ended by data": lambda: (server.response(1) + server.data(1, done, end=True), b"done"),
            "compressed": lambda: (
                server.response(1)
                + server.data(1, message(gzip.compress(b"done"), compressed=True))
                + server.trailers(1),
                b"done",
            ),
            "error": lambda: (server.trailers_only(1, 5), None),
            "error after headers": lambda: (server.response(1) + server.trailers(1, 5), None),
            "no message": lambda: (
                server.response(1) + server.data(1, done[:-1]) + server.trailers(1),
                None,
            ),
            "two messages": lambda: (
                server.response(1) + server.data(1, done + done) + server.trailers(1),
                None,
            ),
            "beyond 1 MiB": lambda: (
                server.response(1)
                + b"".join(server.data(1, part) for part in cut(large, 16_384))
                + server.trailers(1),
                None,
            ),
            "reset": lambda: (server.response(1) + server.reset(1), None),
        }[how]()

    @pytest.mark.parametrize("treatment", ["/watch", "/hold"])
    @pytest.mark.parametrize(
        "how",
        [
            "success",
            "success with nothing in it",
            "in pieces",
            "ended by data",
            "compressed",
            "error",
            "error after headers",
            "no message",
            "two messages",
            "beyond 1 MiB",
            "reset",
        ],
    )
    def test_end_the_call(self, treatment, how):
        play = Playbook()
        if treatment == "/hold":
            play = collect(play, 1, ASK) >> Release(1)
            assert play << Backend(play.client.data(1, ASK, end=True))
        else:
            last = play.client.data(1, ASK, end=True)
            assert (
                play.relays(play.client.request(1, "/watch"))
                >> Client(last)
                << Backend(last)
                << arrived(1, b"ask", method="watch")
            )
        answer, read = self.answer(how, play)
        assert play.answers(answer) << CallEnded(1, read)
        assert not play.session.busy
