"""Where fuzzing begins: real gRPC exchanges, as scripts for ``relay_target``."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator

from tests.fuzz.relay_target import (
    BACKEND_FRAME,
    CHANGE,
    CLIENT_FRAME,
    DRAIN,
    FROM_BACKEND,
    FROM_CLIENT,
    REFUSE,
    RELEASE,
)
from tests.support import frames
from tests.support.frames import ClientFrames, ServerFrames, message

# Paths by how ``relay_target.route`` treats them.
RELAY, WATCH, HOLD = "/runtime.v1.RuntimeService/d", "/runtime.v1.RuntimeService/e", "/h.v1.Svc/f"

# What libFuzzer may put in: byte strings that mean something here.
DICTIONARY = (
    frames.PREFACE,
    *(bytes((kind,)) for kind in range(10)),
    b"\x00\x00\x00\x04\x01\x00\x00\x00\x00",
    b"\x00\x04\x00\x00\x00\x00",
    b"\x00\x01\x00\x00\x00\x00",
    b"\x00\x05\x00\x00\xff\xff",
    frames.literals([(":path", "/f")]),
    b"\x40" + frames.literals([(":path", "/f")])[1:],
    frames.literals([("grpc-encoding", "gzip")]),
    frames.table_size(0),
    frames.table_size(4096),
    b"\xbe\xbf",
    message(b"ask"),
    gzip.compress(b"ask", mtime=0),
)


def step(kind: int, content: bytes) -> bytes:
    return bytes((kind,)) + len(content).to_bytes(2, "big") + content


def framed(kind: int, data: bytes) -> bytes:
    """Frames, each as a step of its own whose length the target puts right."""
    found, rest = frames.read_frames(data)
    assert not rest
    return b"".join(
        bytes((kind, frame.kind, frame.flags, frame.stream & 0xFF))
        + len(frame.payload).to_bytes(2, "big")
        + frame.payload
        for frame in found
    )


def _call(path: str, *, content: bytes = b"ask", pieces: int = 1) -> tuple[bytes, bytes]:
    client, server = ClientFrames(), ServerFrames()
    request = client.request(1, path, [("x-n", "1" * 30)], pieces=pieces)
    request += client.data(1, message(content)[:4], padding=3)
    request += client.data(1, message(content)[4:], end=True)
    request += client.request(3, path, [("x-n", "1" * 30)])
    request += client.data(3, message(content), end=True)
    answer = server.answer(1) + server.credit(0, 50) + server.credit(1, 50) + server.answer(3)
    return request, answer


def _decided(path: str, *decisions: bytes, how: int = 0, content: bytes = b"ask") -> bytes:
    request, answer = _call(path, content=content, pieces=2)
    middle = b"".join(decisions)
    return (
        bytes((how,))
        + framed(CLIENT_FRAME, request)
        + middle
        + framed(BACKEND_FRAME, ServerFrames().settings_ack())
        + framed(BACKEND_FRAME, answer)
    )


def _hello() -> bytes:
    """From the preface on, in chunks."""
    client, server = ClientFrames(), ServerFrames()
    sent = frames.PREFACE + client.settings({4: 70_000}) + _call(RELAY)[0]
    answered = server.settings() + server.settings_ack() + _call(RELAY)[1]
    return (
        b"\x07" + step(FROM_CLIENT, sent[:30]) + step(FROM_BACKEND, answered[:20])
        + step(FROM_CLIENT, sent[30:]) + step(FROM_BACKEND, answered[20:])
    )  # fmt: skip


def _trailers(*decisions: bytes) -> bytes:
    client = ClientFrames()
    sent = client.request(1, HOLD) + client.data(1, message(b"ask")) + client.trailers(1)
    sent += client.ping() + client.settings_ack()
    return b"\x00" + framed(CLIENT_FRAME, sent) + b"".join(decisions)


def _compressed() -> bytes:
    client = ClientFrames()
    body = message(gzip.compress(b"ask" * 20, mtime=0), compressed=True)
    sent = client.request(1, HOLD, [("grpc-encoding", "gzip")]) + client.data(1, body, end=True)
    return b"\x00" + framed(CLIENT_FRAME, sent) + bytes((RELEASE, 1))


def _tables() -> bytes:
    client, server = ClientFrames(), ServerFrames()
    return (
        b"\x00"
        + framed(BACKEND_FRAME, server.settings({1: 100, 4: 7, 5: 20_000}))
        + framed(CLIENT_FRAME, client.settings_ack() + client.settings({1: 50}))
        + framed(BACKEND_FRAME, server.settings_ack())
        + _decided(HOLD, bytes((REFUSE, 1, 14, 3)))[1:]
    )


def _endings() -> bytes:
    client, server = ClientFrames(), ServerFrames()
    sent = b"".join(client.request(n, HOLD) + client.data(n, message(b"a")) for n in (1, 3, 5))
    return (
        b"\x00"
        + framed(CLIENT_FRAME, sent + client.reset(1))
        + framed(BACKEND_FRAME, server.trailers_only(3, 12) + server.goaway(3) + server.reset(3))
        + bytes((DRAIN,))
    )


def _many() -> bytes:
    client, script = ClientFrames(), b"\x00"
    for stream in range(1, 13, 2):
        body = message(bytes(56))
        sent = client.request(stream, HOLD) + client.data(stream, body, end=stream % 4 == 1)
        script += framed(CLIENT_FRAME, sent)
    return script + bytes((RELEASE, 1, RELEASE, 5)) + framed(CLIENT_FRAME, client.reset(3))


def _no_room(ending: bytes) -> bytes:
    """Relayed bytes wait behind a message that was made longer."""
    client, server = ClientFrames(), ServerFrames()
    held = client.request(1, HOLD) + client.data(1, message(b"ask"), end=True)
    relayed = client.request(3, RELAY) + client.data(3, b"abcdefgh", padding=5)
    return (
        b"\x40"
        + framed(CLIENT_FRAME, held)
        + bytes((CHANGE, 1, 4))
        + framed(CLIENT_FRAME, relayed + client.data(3, b"more"))
        + ending
        + framed(BACKEND_FRAME, server.credit(0, 30))
        + framed(CLIENT_FRAME, client.data(3, b"end", end=True) + client.ping())
        + framed(BACKEND_FRAME, server.credit(0, 60_000) + server.answer(1) + server.answer(3))
    )


SEEDS: dict[str, Callable[[], bytes]] = {
    "hello": _hello,
    "relayed": lambda: _decided(RELAY),
    "watched": lambda: _decided(WATCH),
    "released": lambda: _decided(HOLD, bytes((RELEASE, 1)), bytes((RELEASE, 3))),
    "changed": lambda: _decided(HOLD, bytes((CHANGE, 3, 200)), bytes((CHANGE, 1, 0)), how=24),
    "refused": lambda: _decided(HOLD, bytes((REFUSE, 1, 14, 3)), bytes((REFUSE, 3, 2, 255))),
    "too large": lambda: _decided(HOLD, content=bytes(400)),
    "no window": lambda: _decided(HOLD, bytes((RELEASE, 1)), bytes((RELEASE, 3)), how=8),
    "trailers released": lambda: _trailers(bytes((RELEASE, 1))),
    "trailers refused": lambda: _trailers(bytes((REFUSE, 1, 1, 1))),
    "compressed": _compressed,
    "tables": _tables,
    "endings": _endings,
    "many": _many,
    "no room": lambda: _no_room(b""),
    "no room, reset": lambda: _no_room(framed(CLIENT_FRAME, ClientFrames().reset(3))),
    "no room, goaway": lambda: _no_room(framed(BACKEND_FRAME, ServerFrames().goaway(1))),
    "no room, settings": lambda: _no_room(
        framed(BACKEND_FRAME, ServerFrames().settings({4: 5}))
        + framed(CLIENT_FRAME, ClientFrames().settings_ack())
    ),
}


def seeds() -> Iterator[tuple[str, bytes]]:
    """Each seed's name and script."""
    return ((name, make()) for name, make in SEEDS.items())
