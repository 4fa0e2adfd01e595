"""What is read of calls: requests that pass by, messages in compression, responses."""

from __future__ import annotations

import gzip

import pytest
from koord_proxy.contract.events import CallEnded, RequestArrived
from koord_proxy.cri import limits

from tests.proxy.cri.test_session_held import ASK, collect
from tests.support.cri_playbook import Playbook, arrived, credited, cut
from tests.support.frames import message
from tests.support.playbook import Backend, Client, Release

BOMB = gzip.compress(bytes((16 << 20) + 1))


class TestWatching:
    def test_passes_everything_at_once(self, play, client, server):
        last = client.data(1, ASK[6:], end=True)
        assert play.relays(client.request(1, "/watch"), client.data(1, ASK[:6], padding=3))
        assert (
            play >> Client(last) << Backend(last) << arrived(1, b"ask", method="watch")
        ).answers(server.credit(1, 12), server.credit(0, 12)).answers(
            server.answer(1)
        ) << CallEnded(1, b"done")
        assert not play.session.busy
        assert play.session._state.held_bytes == 0

    def test_a_malformed_request_is_reported(self, play, client):
        last = client.data(1, b"junk", end=True)
        problem = "4 bytes are not one gRPC message"
        assert play.relays(client.request(1, "/watch"))
        assert (
            play
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


class TestCompressed:
    def test_requests_are_read_and_go_on_as_they_came(self, play, client):
        body = message(gzip.compress(b"ask" * 50), compressed=True)
        assert play.relays(client.request(1, "/hold", [("grpc-encoding", "gzip")]))
        assert (
            play
            >> Client(client.data(1, body, end=True))
            << arrived(1, b"ask" * 50)
            << credited(0, len(body))
        )
        assert play >> Release(1) << Backend(client.data(1, body, end=True))

    def test_a_changed_message_is_sent_plain(self, play, client):
        """Which any receiver understands, whatever encoding the call named."""
        body = message(gzip.compress(b"ask"), compressed=True)
        assert play.relays(client.request(1, "/hold", [("grpc-encoding", "gzip")]))
        assert (
            play
            >> Client(client.data(1, body, end=True))
            << arrived(1, b"ask")
            << credited(0, len(body))
        )
        assert play >> Release(1, b"other") << Backend(client.data(1, message(b"other"), end=True))

    def test_an_encoding_may_be_named_and_not_used(self, play, client):
        assert play.relays(client.request(1, "/hold", [("grpc-encoding", "snappy")]))
        assert collect(play, 1, ASK, announced=True)

    @pytest.mark.parametrize(
        ("encoding", "payload", "problem"),
        [
            ("snappy", b"\x03\x08ask", "grpc-encoding 'snappy' is not known here"),
            ("gzip", BOMB, "gzip: cut short, or more than 16777216 bytes"),
        ],
    )
    def test_what_cannot_be_read_is_reported(self, play, client, encoding, payload, problem):
        body = message(payload, compressed=True)
        assert play.relays(client.request(1, "/hold", [("grpc-encoding", encoding)]))
        play = play >> Client(client.data(1, body, end=True)) << credited(0, len(body))
        request = play.requests.pop()
        assert request.message is None
        assert request.problem.startswith(problem)
        # It is the backend's to judge.
        sized = play >> Release(1)
        assert b"".join(frame.payload for frame in sized.to_backend.frames) == body


DONE, LARGE = message(b"done"), message(bytes((1 << 20) + 20_000))
GZIPPED = message(gzip.compress(b"done"), compressed=True)
# A response, and what is read of it.
RESPONSES = {
    "success": (lambda server: server.answer(1), b"done"),
    "success with nothing in it": (lambda server: server.answer(1, b""), b""),
    "in pieces": (
        lambda server: (
            server.data(1, DONE[:3], padding=9) + server.data(1, DONE[3:]) + server.trailers(1)
        ),
        b"done",
    ),
    "ended by data": (lambda server: server.data(1, DONE, end=True), b"done"),
    "compressed": (lambda server: server.data(1, GZIPPED) + server.trailers(1), b"done"),
    "error": (lambda server: server.trailers_only(1, 5), None),
    "error after headers": (lambda server: server.trailers(1, 5), None),
    "no message": (lambda server: server.data(1, DONE[:-1]) + server.trailers(1), None),
    "two messages": (lambda server: server.data(1, DONE + DONE) + server.trailers(1), None),
    "beyond 1 MiB": (
        lambda server: (
            b"".join(server.data(1, part) for part in cut(LARGE, 16_384)) + server.trailers(1)
        ),
        None,
    ),
    "reset": (lambda server: server.reset(1), None),
}


@pytest.mark.parametrize("treatment", ["/watch", "/hold"])
@pytest.mark.parametrize("how", RESPONSES)
def test_responses_end_the_call(play, client, server, treatment, how):
    last = client.data(1, ASK, end=True)
    if treatment == "/hold":
        assert collect(play, 1, ASK) >> Release(1) << Backend(last)
    else:
        play = play.relays(client.request(1, "/watch")) >> Client(last) << Backend(last)
        assert play << arrived(1, b"ask", method="watch")
    make, read = RESPONSES[how]
    if not how.startswith("success") and how != "error":
        assert play.answers(server.response(1))
    assert play.answers(make(server)) << CallEnded(1, read)
    assert not play.session.busy
