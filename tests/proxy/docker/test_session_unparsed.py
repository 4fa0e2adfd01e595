"""What cannot be parsed goes nowhere: dockerd might find a call in it that hooks are due for.

``LENIENT`` are requests that dockerd 20.10 (Go 1.19) takes for a create, and llhttp for none: each
was sent to it. The others are as good as garbage to both.
"""

from __future__ import annotations

import pytest
from koord_proxy.contract.events import CallAbandoned, CallEnded
from koord_proxy.docker.http_messages import MAX_HEAD
from koord_proxy.docker.session import BadRequestError, EngineError

from tests.support.docker_playbook import PING, PONG, Playbook, arrived, post
from tests.support.playbook import Backend, Client, Release

BODY = b"{}"
CREATE = post("/hold/create", BODY)
LENGTH = f"Content-Length: {len(BODY)}"
CHUNKED = "Transfer-Encoding: chunked"


def create(*fields: str, line: str = "POST /hold/create HTTP/1.1", body: bytes = BODY) -> bytes:
    head = "".join(f"{one}\r\n" for one in (line, "Host: docker", *fields))
    return head.encode() + b"\r\n" + body


def in_chunks(data: bytes) -> bytes:
    return create(CHUNKED, body=data)


LENIENT = {
    "bare LF": CREATE.replace(b"\r\n", b"\n"),
    "one bare LF": CREATE.replace(b"docker\r\n", b"docker\n"),
    "LF behind the head": CREATE.replace(b"\r\n\r\n", b"\r\n\n"),
    "a folded field": create("A: a", " b", LENGTH),
    "a folded length": create("Content-Length:", f" {len(BODY)}"),
    "a field without a name": create(": a", LENGTH),
    "two bodies": create(CHUNKED, "Content-Length: 7", body=b"2\r\n{}\r\n0\r\n\r\n"),
    "two bodies, the length first": create(
        "Content-Length: 7", CHUNKED, body=b"2\r\n{}\r\n0\r\n\r\n"
    ),
    "a length given twice": create(LENGTH, LENGTH),
    "HTTP/1.2": create(LENGTH, line="POST /hold/create HTTP/1.2"),
    "an odd scheme": create(LENGTH, line="POST x-y://d/hold/create HTTP/1.1"),
    "a query that is not ASCII": create(LENGTH, line="POST /hold/create?name=\u00e9 HTTP/1.1"),
    "a long head": create("A: " + "x" * MAX_HEAD, LENGTH),
    "a space behind a chunk's size": in_chunks(b"2 \r\n{}\r\n0\r\n\r\n"),
    "a tab behind a chunk's size": in_chunks(b"2\t\r\n{}\r\n0\r\n\r\n"),
    "an odd chunk extension": in_chunks(b"2;\x01\r\n{}\r\n0\r\n\r\n"),
    "chunks with bare LF": in_chunks(b"2\n{}\n0\n\n"),
    "a last chunk with bare LF": in_chunks(b"2\r\n{}\r\n0\n\n"),
    "an odd trailer": in_chunks(b"2\r\n{}\r\n0\r\nA b\r\n\r\n"),
    "a trailer with bare LF": in_chunks(b"2\r\n{}\r\n0\r\nA: b\n\n"),
}
GARBAGE = {
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "TLS": b"\x16\x03\x01\x02\x00",
    "an unknown method": b"FETCH / HTTP/1.1\r\n\r\n",
    "a method in lower case": create(LENGTH, line="post /hold/create HTTP/1.1"),
    "no method": b"\x00\x01\r\n\r\n",
    "chunks in HTTP/1.0": create(CHUNKED, line="POST /hold/create HTTP/1.0"),
    "an unknown coding": create("Transfer-Encoding: xchunked", body=b"2\r\n{}\r\n0\r\n\r\n"),
}


def refused(play: Playbook) -> bool:
    """It was answered with 400, once, and the engine heard nothing of it."""
    answer, play.to_client.left = play.to_client.left, b""
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert answer.count(b"HTTP/1.1") == 2  # the second in its message
    assert b"\r\nConnection: close\r\n" in answer
    assert isinstance(play.session.failed, BadRequestError)
    assert "\n" not in str(play.session.failed)
    # Nor does it hear of anything that follows.
    return bool(play >> Client(CREATE, PING) >> Backend(PONG))


@pytest.mark.parametrize("request_", (LENIENT | GARBAGE).values(), ids=(LENIENT | GARBAGE).keys())
class TestRequest:
    @pytest.mark.parametrize("before", [b"", PING])
    @pytest.mark.parametrize("pieces", [False, True])
    def test_is_refused(self, request_, before, pieces, play):
        if before:
            assert play.relays(before).answers(PONG)
        if pieces and len(request_) < MAX_HEAD:
            play = play.byte_by_byte()
        assert refused(play >> Client(request_))

    def test_sent_ahead(self, request_, play):
        play = play >> Client(PING, request_) << Backend(PING)
        assert refused(play >> Backend(PONG) << Client(PONG))


@pytest.mark.parametrize("how", ["relay", "watch"])
class TestBody:
    """Of a request that is under way already: the engine sees it cut off."""

    HEAD, WRONG = "Transfer-Encoding: chunked", b"1\r\nx\r\n" + b"no size\r\n"

    def test_is_refused(self, how, play):
        head = post(f"/{how}/create", b"", self.HEAD)
        assert refused(play.relays(head) >> Client(self.WRONG))

    def test_that_is_answered_already(self, how, play):
        head = post(f"/{how}/create", b"", self.HEAD)
        play = play.relays(head).answers(b"HTTP/1.1 200 OK\r\n")
        assert play >> Client(self.WRONG)
        assert isinstance(play.session.failed, BadRequestError)


class TestAnswer:
    @pytest.mark.parametrize(
        "garbage", [b"\x15\x03", b"HTTP/1.1 200 OK\n\n", b"HTTP/2.0 200\r\n\r\n"]
    )
    def test_is_passed_on_and_ends_the_connection(self, garbage, play):
        """What the client asks next would be asked unread."""
        play = play >> Client(PING, CREATE) << Backend(PING)
        assert play >> Backend(garbage) << Client(garbage)
        assert isinstance(play.session.failed, EngineError)
        assert play >> Client(CREATE)

    @pytest.mark.parametrize("how", ["watch", "hold"])
    def test_ends_a_call(self, how):
        request = post(f"/{how}/create", b"{}")
        play = Playbook() >> Client(request) << arrived(1, f"/{how}/create", b"{}")
        if how == "hold":
            play = play >> Release(1)
        head = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert (play << Backend(request)).answers(head)
        assert play >> Backend(b"no size\r\n") << CallEnded(1, None) << Client(b"no size\r\n")

    def test_that_nobody_asked_for(self):
        """Hooks would have nothing of what follows on such a connection: it ends."""
        play = Playbook().relays(PING).answers(PONG, PONG)
        assert str(play.session.failed) == "the engine answered what it was not asked"
        assert play >> Client(PING)

    def test_into_a_head(self):
        play = Playbook() >> Client(PING[:-1])
        assert play >> Backend(PONG) << Client(PONG)
        assert str(play.session.failed) == "the engine answered what it was not asked"
        assert play >> Client(PING[-1:])


def test_a_call_that_waits_is_abandoned_with_what_follows_it(play):
    """It is not decided yet when the engine speaks out of turn."""
    play = play >> Client(CREATE, b"junk") << arrived(1, "/hold/create", BODY)
    assert play >> Backend(PONG) << Client(PONG) << CallAbandoned(1)
    assert isinstance(play.session.failed, EngineError)
