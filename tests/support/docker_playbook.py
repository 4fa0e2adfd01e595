"""A script of one relayed HTTP/1.1 connection (see ``playbook``), written in bytes."""

from __future__ import annotations

from koord_proxy.contract.events import RequestArrived, Route, Tally, Treatment
from koord_proxy.docker.session import DockerSession

from tests.support import playbook

TREATMENTS = {"relay": Treatment.RELAY, "watch": Treatment.WATCH, "hold": Treatment.HOLD}
PING = b"GET /relay/ping HTTP/1.1\r\nHost: docker\r\n\r\n"
PONG = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Side:
    """Output to one side that was not checked yet."""

    def __init__(self) -> None:
        self.left = b""

    def add(self, data: bytes) -> None:
        self.left += data

    def take(self, expected: bytes) -> None:
        got = self.left[: len(expected)]
        assert got == expected, f"wanted {expected!r}\n   got {self.left[:500]!r}"
        self.left = self.left[len(expected) :]


class Playbook(playbook.Playbook):
    """A target's first segment is how it is treated, its last the name of the call."""

    def __init__(self) -> None:
        super().__init__()
        self.tally = Tally()
        self.session = DockerSession(self.route)
        self.to_client = Side()
        self.to_backend = Side()

    def route(self, target: str) -> Route:
        path = target.split(" ")[1].strip("/").split("/")
        return Route(TREATMENTS[path[0]], self.tally, path[-1])


def post(target: str, body: bytes = b"", *fields: str) -> bytes:
    """A POST whose body, if there is any, has a length."""
    length = (f"Content-Length: {len(body)}",) if body else ()
    lines = (f"POST {target} HTTP/1.1", "Host: docker", *fields, *length)
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


def answer(status: int, body: bytes = b"", *fields: str) -> bytes:
    """A response whose body has a length."""
    lines = (f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *fields)
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


def chunked(*chunks: bytes, trailers: bytes = b"", extension: bytes = b"") -> bytes:
    """A body in chunks, each with the same extension."""
    parts = [b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks]
    return b"".join((*parts, b"0", extension, b"\r\n", trailers, b"\r\n"))


def arrived(stream: int, target: str, body: bytes | None, problem: str = "") -> RequestArrived:
    """The request that a held or watched POST turns into."""
    held = target.startswith("/hold")
    method = target.rpartition("/")[2]
    return RequestArrived(stream, method, body, held, problem, f"POST {target}")
