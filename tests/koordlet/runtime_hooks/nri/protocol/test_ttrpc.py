"""Frames and calls of ttrpc, as bytes."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_proto import nri_ttrpc_pb2 as pb
from koordlet.runtime_hooks.nri.protocol.ttrpc import (
    DATA,
    INTERNAL,
    INVALID_ARGUMENT,
    MAX_MESSAGE,
    REQUEST,
    RESOURCE_EXHAUSTED,
    RESPONSE,
    UNIMPLEMENTED,
    TtrpcClient,
    TtrpcError,
    TtrpcFrameReader,
    TtrpcRequest,
    TtrpcResponse,
    TtrpcServer,
    pack,
)

payloads = st.lists(st.binary(max_size=300), max_size=8)
cuts = st.lists(st.integers(0, 3000), max_size=12)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    places = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(places)]


def call(stream: int, payload: bytes = b"p", **fields: object) -> bytes:
    request = pb.Request(service="s", method="m", payload=payload, **fields)
    return pack(stream, REQUEST, request.SerializeToString())


def statuses(server: TtrpcServer) -> list[tuple[int, int]]:
    """Stream and code of what was refused."""
    found = []
    for frame in TtrpcFrameReader().feed(b"".join(server.out)):
        assert frame.kind == RESPONSE
        found.append((frame.stream, pb.Response.FromString(frame.payload).status.code))
    return found


@given(payloads, cuts)
def test_calls_come_whole_wherever_they_are_cut(bodies, places):
    client, server = TtrpcClient(), TtrpcServer()
    streams = [client.call("a.Service", "Method", body, 1.5) for body in bodies]
    got = [
        request for part in cut(b"".join(client.out), places) for request in server.receive(part)
    ]
    assert got == [
        TtrpcRequest(stream, "a.Service", "Method", body, 1.5)
        for stream, body in zip(streams, bodies, strict=True)
    ]
    assert server.out == []


@given(payloads, cuts, st.randoms())
def test_answers_find_their_calls_in_any_order(bodies, places, random):
    client, server = TtrpcClient(), TtrpcServer()
    for body in bodies:
        client.call("s", "m", body)
    requests = server.receive(b"".join(client.out))
    random.shuffle(requests)
    for request in requests:
        server.respond(request.stream, request.payload[::-1])
    got = [answer for part in cut(b"".join(server.out), places) for answer in client.receive(part)]
    assert got == [TtrpcResponse(request.stream, request.payload[::-1]) for request in requests]


@given(st.binary(max_size=400), cuts)
def test_any_bytes_end_in_frames_or_one_error(data, places):
    for side in (TtrpcServer(), TtrpcClient()):
        with contextlib.suppress(TtrpcError):
            for part in cut(data, places):
                side.receive(part)


def test_streams_of_a_client_are_odd_and_increase():
    client = TtrpcClient()
    assert [client.call("s", "m", b"") for _ in range(3)] == [1, 3, 5]


def test_a_call_without_timeout_waits_for_ever():
    [request] = TtrpcServer().receive(call(1))
    assert request.timeout is None


def test_refusal_reaches_the_caller():
    client, server = TtrpcClient(), TtrpcServer()
    stream = client.call("s", "m", b"")
    server.receive(b"".join(client.out))
    server.refuse(stream, UNIMPLEMENTED, "no m here")
    [answer] = client.receive(b"".join(server.out))
    assert answer == TtrpcResponse(stream, b"", UNIMPLEMENTED, "no m here")


def test_unknown_fields_of_a_request_do_not_matter():
    metadata = bytes([0x2A, 2, 0x0A, 0])
    request = pb.Request(service="s", method="m").SerializeToString() + metadata
    [got] = TtrpcServer().receive(pack(1, REQUEST, request))
    assert (got.service, got.method) == ("s", "m")


def test_frame_of_the_largest_size_passes():
    payload = bytes(MAX_MESSAGE - 64)
    [request] = TtrpcServer().receive(call(1, payload))
    assert request.payload == payload


def test_frame_that_is_too_large_is_refused_and_passed_over():
    server = TtrpcServer()
    large = (MAX_MESSAGE + 1).to_bytes(4, "big") + bytes([0, 0, 0, 1, REQUEST, 0])
    assert server.receive(large + bytes(1000)) == []
    assert server.receive(bytes(MAX_MESSAGE - 999) + call(3)) == [
        TtrpcRequest(3, "s", "m", b"p", None)
    ]
    assert statuses(server) == [(1, RESOURCE_EXHAUSTED)]


@pytest.mark.parametrize("side", [TtrpcServer, TtrpcClient])
def test_senseless_length_is_an_error(side):
    with pytest.raises(TtrpcError, match=r"16777216 bytes; at most 4194304"):
        side().receive((1 << 24).to_bytes(4, "big") + bytes(6))


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (call(2), INVALID_ARGUMENT),
        (call(0), INVALID_ARGUMENT),
        (pack(5, DATA, b""), INVALID_ARGUMENT),
        (pack(5, REQUEST, b"\xff"), INVALID_ARGUMENT),
        (pack(5, REQUEST, b"", flags=1), UNIMPLEMENTED),
        (pack(5, REQUEST, b"", flags=2), UNIMPLEMENTED),
        (call(1), INVALID_ARGUMENT),
    ],
    ids=["even", "zero", "data", "unreadable", "half closed", "streams", "repeated"],
)
def test_bad_call_is_refused_for_itself(frame, code):
    server = TtrpcServer()
    assert len(server.receive(call(1))) == 1
    assert server.receive(frame) == []
    assert [answer[1] for answer in statuses(server)] == [code]
    assert len(server.receive(call(7))) == 1


@pytest.mark.parametrize("kind", [RESPONSE, 9])
def test_server_passes_over_frames_that_are_not_for_it(kind):
    server = TtrpcServer()
    assert server.receive(pack(1, kind, b"x")) == []
    assert server.out == []


def test_only_what_waits_can_be_answered_and_once():
    server = TtrpcServer()
    server.receive(call(1))
    server.respond(1, b"")
    for answer in (lambda: server.respond(1, b""), lambda: server.refuse(3, INTERNAL, "")):
        with pytest.raises(ValueError, match="waits for no answer"):
            answer()


def test_an_answer_that_is_too_large_leaves_the_call_waiting():
    server = TtrpcServer()
    server.receive(call(1))
    with pytest.raises(ValueError, match="at most 4194304 are sent"):
        server.respond(1, bytes(MAX_MESSAGE))
    server.respond(1, b"less")
    assert statuses(server) == [(1, 0)]


def test_a_call_that_is_too_large_is_not_made():
    client = TtrpcClient()
    with pytest.raises(ValueError, match="at most 4194304 are sent"):
        client.call("s", "m", bytes(MAX_MESSAGE))
    assert client.out == []
    assert client.call("s", "m", b"") == 1


@pytest.mark.parametrize(
    ("frame", "code", "message"),
    [
        (pack(1, RESPONSE, b"\xff"), INTERNAL, "cannot be read"),
        (pack(1, DATA, b""), INTERNAL, "type 3 instead"),
        (
            (MAX_MESSAGE + 1).to_bytes(4, "big") + bytes([0, 0, 0, 1, RESPONSE, 0]),
            RESOURCE_EXHAUSTED,
            "at most",
        ),
    ],
    ids=["unreadable", "data", "too large"],
)
def test_bad_answer_ends_its_call(frame, code, message):
    client = TtrpcClient()
    client.call("s", "m", b"")
    [answer] = client.receive(frame)
    assert answer.code == code
    assert message in answer.message


def test_answers_nobody_waits_for_are_passed_over():
    client = TtrpcClient()
    client.call("s", "m", b"")
    answer = pack(1, RESPONSE, b"")
    assert len(client.receive(pack(3, RESPONSE, b"") + answer)) == 1
    assert client.receive(answer) == []
