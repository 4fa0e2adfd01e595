"""Where messages end, whatever pieces their bytes come in."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from koord_proxy.docker.http_messages import (
    MAX_HEAD,
    BodyCopy,
    EngineRequest,
    EngineResponse,
    HttpMessage,
    HttpMessageError,
    error_response,
    with_length,
    without_expect,
)

from tests.support.docker_playbook import chunked

LIMIT = 1000


def read(message: HttpMessage, pieces: list[bytes]) -> tuple[int, bytes]:
    """How many of the bytes belong to a message, and what its body contains."""
    copy, taken = BodyCopy(LIMIT), 0
    for piece in pieces:
        start = 0
        while start < len(piece) and not message.complete:
            end = message.take(piece, start)
            assert end > start, "nothing was taken"
            taken += end - start
            start = end
            if message.body is not None:
                message.body.copy = copy
    return taken, bytes(copy.content)


NEXT = b"GET / HTTP/1.1\r\n\r\n"
"""What comes behind a message, and is not to be taken for a part of it."""


def single(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
REQUESTS = {
    "without a body": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b""),
    "without a field": (b"GET / HTTP/1.1\r\n\r\n", b""),
    "behind empty lines": (b"\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n", b""),
    "with a length": (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "with spaces behind a length": (
        b"POST / HTTP/1.1\r\ncontent-length:5  \r\n\r\nhello",
        b"hello",
    ),
    "with a length of nothing": (b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", b""),
    "full of empty lines": (
        b"POST / HTTP/1.1\r\nContent-Length: 8\r\n\r\n" + b"\r\n" * 4,
        b"\r\n" * 4,
    ),
    "of HTTP/1.0": (b"POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\nx", b"x"),
    "that wishes to upgrade": (
        b"POST / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 2\r\n\r\n{}",
        b"{}",
    ),
    "that wishes to upgrade, in chunks": (
        b"POST / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"{}"),
        b"{}",
    ),
    "that wishes to connect": (b"CONNECT x:1 HTTP/1.1\r\n\r\n", b""),
    "in chunks": (CHUNKED + chunked(b"abc", b"d"), b"abcd"),
    "in no chunks": (CHUNKED + chunked(), b""),
    "in chunks of an odd spelling": (
        b"POST / HTTP/1.1\r\ntransfer-encoding: CHUNKED\r\n\r\n3\r\nabc\r\n000\r\n\r\n",
        b"abc",
    ),
    "in chunks with extensions": (CHUNKED + chunked(b"abc", extension=b";a=b"), b"abc"),
    "in chunks with trailers": (CHUNKED + chunked(b"abc", trailers=b"A: b\r\nC: d\r\n"), b"abc"),
    "in chunks of empty lines": (CHUNKED + chunked(b"\r\n\r\n", b"\r\n", b"\n"), b"\r\n\r\n\r\n\n"),
    "in chunks like an end": (CHUNKED + chunked(b"\r\n0\r\n\r\n"), b"\r\n0\r\n\r\n"),
    "in chunks of something packed": (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + chunked(b"abc"),
        b"abc",
    ),
}
OK = b"HTTP/1.1 200 OK\r\n"
RESPONSES = {
    "with a length": ("GET", OK + b"Content-Length: 2\r\n\r\nOK", b"OK"),
    "without a reason": ("GET", b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nOK", b"OK"),
    "in chunks": ("GET", OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"a", b"b"), b"ab"),
    "of HEAD": ("HEAD", OK + b"Content-Length: 2\r\n\r\n", b""),
    "of HEAD, in chunks": ("HEAD", OK + b"Transfer-Encoding: chunked\r\n\r\n", b""),
    "of no content": ("GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n", b""),
    "of nothing new": ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", b""),
    "that is interim": ("POST", b"HTTP/1.1 100 Continue\r\n\r\n", b""),
    "that closes": ("GET", OK + b"Connection: close\r\nContent-Length: 1\r\n\r\nx", b"x"),
}
MESSAGES = {
    **{f"a request {name}": (EngineRequest, *row) for name, row in REQUESTS.items()},
    **{
        f"a response {name}": (lambda method=method: EngineResponse(method), data, body)
        for name, (method, data, body) in RESPONSES.items()
    },
}


@pytest.mark.parametrize("what", MESSAGES)
def test_a_message_ends_at_its_last_byte(what):
    make, data, body = MESSAGES[what]
    for pieces in ([data + NEXT], [data, NEXT], single(data + NEXT)):
        message = make()
        assert read(message, pieces) == (len(data), body)
        assert message.complete


@pytest.mark.parametrize("what", MESSAGES)
def test_a_message_may_be_cut_anywhere(what):
    make, data, body = MESSAGES[what]
    for cut in range(len(data)):
        message = make()
        assert read(message, [data[:cut]])[0] == cut
        assert not message.complete
        assert read(make(), [data[:cut], data[cut:] + NEXT]) == (len(data), body)


@given(st.sampled_from(sorted(MESSAGES)), st.lists(st.integers(0, 200)))
@example("a request in chunks like an end", [49, 51, 53])
def test_a_message_may_be_cut_often(what, cuts):
    make, data, body = MESSAGES[what]
    stream = data + NEXT
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    assert read(make(), pieces) == (len(data), body)


ENDLESS = {
    "no length": ("GET", OK + b"\r\n"),
    "no length, to be closed": ("GET", b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n"),
    "a coding that is not chunked": ("GET", OK + b"Transfer-Encoding: gzip\r\n\r\n"),
    "switched": ("POST", b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"),
    "switched, with a length": (
        "POST",
        b"HTTP/1.1 101 Switched\r\nConnection: Upgrade\r\nUpgrade: a\r\nContent-Length: 3\r\n\r\n",
    ),
    "connected": ("CONNECT", OK + b"Content-Length: 2\r\n\r\n"),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_response_may_have_no_end(what):
    method, data = ENDLESS[what]
    for pieces in ([data], single(data)):
        response = EngineResponse(method)
        for piece in pieces:
            assert not response.endless
            response.take(piece, 0)
        assert response.endless
        assert not response.interim


@pytest.mark.parametrize("what", RESPONSES)
def test_a_response_that_has_an_end_is_not_endless(what):
    method, data, _ = RESPONSES[what]
    response = EngineResponse(method)
    response.take(data, 0)
    assert not response.endless
    assert response.interim == (what == "that is interim")


NO_HTTP = {
    "HTTP/2": (EngineRequest, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/2 by name": (EngineRequest, b"GET / HTTP/2.0\r\n\r\n"),
    "HTTP/0.9": (EngineRequest, b"GET /\r\n\r\n"),
    "TLS": (EngineRequest, b"\x16\x03\x01"),
    "an unknown method": (EngineRequest, b"FETCH"),
    "bare LF": (EngineRequest, b"GET / HTTP/1.1\n"),
    "bare LF behind a field": (EngineRequest, b"GET / HTTP/1.1\r\nHost: x\n"),
    "a folded field": (EngineRequest, b"GET / HTTP/1.1\r\nA: b\r\n c"),
    "two lengths": (
        EngineRequest,
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
    ),
    "a length and chunks": (
        EngineRequest,
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ),
    "a length that is none": (EngineRequest, b"GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n"),
    "a coding that is not chunked": (
        EngineRequest,
        b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
    ),
    "chunks in HTTP/1.0": (EngineRequest, b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "a chunk without its end": (EngineRequest, CHUNKED + b"1\r\nab"),
    "a chunk of no size": (EngineRequest, CHUNKED + b"\r\n"),
    "a response that is none": (lambda: EngineResponse("GET"), b"garbage"),
    "a response of HTTP/2": (lambda: EngineResponse("GET"), b"HTTP/2.0 200 OK\r\n\r\n"),
    "a response in chunks, in HTTP/1.0": (
        lambda: EngineResponse("GET"),
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ),
}


@pytest.mark.parametrize("what", NO_HTTP)
def test_what_is_no_http_is_found_at_once(what):
    make, data = NO_HTTP[what]
    for pieces in ([data], single(data)):
        with pytest.raises(HttpMessageError) as caught:
            read(make(), pieces)
        assert str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [1, MAX_HEAD, 3 * MAX_HEAD])
def test_a_head_is_bounded(size):
    head = b"GET / HTTP/1.1\r\nA: " + b"x" * MAX_HEAD
    with pytest.raises(HttpMessageError, match=f"more than {MAX_HEAD} bytes"):
        read(EngineRequest(), [head[i : i + size] for i in range(0, len(head), size)])
    most = EngineRequest()
    assert read(most, [head[: MAX_HEAD - 4] + b"\r\n\r\n"])[0] == MAX_HEAD
    assert most.complete


def test_a_request_line_is_reported():
    found = EngineRequest()
    read(found, [b"DELETE /v1.41/containers/", b"x?force=1 HTTP/1.1\r\n\r\n"])
    assert (found.method, found.target) == ("DELETE", "/v1.41/containers/x?force=1")


def request(fields: str, line: str = "PUT / HTTP/1.1") -> EngineRequest:
    """One that was read, with these fields."""
    found = EngineRequest()
    read(found, [f"{line}\r\n{fields}\r\n".encode()])
    return found


@pytest.mark.parametrize(
    ("fields", "last"),
    [
        ("", False),
        ("Connection: keep-alive\r\n", False),
        ("Connection: close\r\n", True),
        ("connection: TE ,  Close\r\n", True),
        ("Connection: TE\r\nConnection: close\r\n", True),
        ("Connection: closet\r\n", False),
    ],
)
def test_a_request_may_be_the_last(fields, last):
    assert request(fields).last is last
    assert request(fields, "GET / HTTP/1.0").last


@pytest.mark.parametrize(
    ("fields", "expects"),
    [
        ("", False),
        ("Expect: 100-continue\r\n", True),
        ("expect:100-Continue \r\n", True),
        ("Expect: a miracle\r\n", False),
    ],
)
def test_a_request_may_expect_to_be_asked_to_go_on(fields, expects):
    fields += "Content-Length: 1\r\n"
    assert request(fields).expects_continue is expects
    assert not request(fields, "PUT / HTTP/1.0").expects_continue


def test_a_copy_is_bounded():
    copy = BodyCopy(5)
    copy.add(b"abc")
    copy.add(b"de")
    assert (copy.content, copy.whole) == (b"abcde", True)
    copy.add(b"f")
    copy.add(b"g")
    assert (copy.content, copy.whole) == (b"", False)


HEAD = (
    b"POST /x HTTP/1.1\r\nHost: docker\r\nEXPECT: 100-continue\r\nX-Content-Length: 3\r\n"
    b"transfer-encoding: chunked\r\nContent-length: 9\r\nTrailer: A\r\nAccept: a, b\r\n\r\n"
)


def test_a_head_without_expect():
    assert without_expect(HEAD) == HEAD.replace(b"EXPECT: 100-continue\r\n", b"")
    assert without_expect(b"GET / HTTP/1.1\r\n\r\n") == b"GET / HTTP/1.1\r\n\r\n"


def test_a_head_with_another_length():
    assert with_length(HEAD, 12) == (
        b"POST /x HTTP/1.1\r\nHost: docker\r\nX-Content-Length: 3\r\nAccept: a, b\r\n"
        b"Content-Length: 12\r\n\r\n"
    )
    assert with_length(b"GET / HTTP/1.1\r\n\r\n", 0) == (
        b"GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
    )


def test_an_error_is_what_the_engine_would_send():
    assert error_response("503 Service Unavailable", 'a "b"\n', "POST", last=False) == (
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        b'Content-Length: 24\r\n\r\n{"message": "a \\"b\\"\\n"}'
    )
    assert error_response("413 Content Too Large", "no", "HEAD", last=True) == (
        b"HTTP/1.1 413 Content Too Large\r\nContent-Type: application/json\r\n"
        b"Content-Length: 17\r\nConnection: close\r\n\r\n"
    )
