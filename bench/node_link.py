"""Nodes that report straight to the manager, many in one process.

They are others' business here, so they speak just enough HTTP/2 to send messages made beforehand.
Each has its own token and reports, and its own connection as far as there are descriptors.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import resource
import selectors
import socket
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from koord_model.service_account_token import MANAGER_AUDIENCE
from koord_proto.node_metric_pb2 import ReportRequest

from bench import large_cluster
from bench.gated_cluster import ReportExtensions
from bench.large_cluster import INTERVAL, Object

SERVER = f"koordinator-manager-leader.{large_cluster.NAMESPACE}.svc"


def _nothing(_node: int, _which: int) -> None:
    """Reports of nodes without extensions."""


def messages(node: int, extensions: Callable[[int, int], Object | None] = _nothing) -> list[bytes]:
    """gRPC messages of the node's reports, compressed, by variant."""
    found = []
    for which in range(large_cluster.VARIANTS):
        request = ReportRequest(
            node=large_cluster.node_name(node),
            session=f"session-{node}",
            sequence=1,  # the last report again is taken, and costs the same
            reported_at_ms=1_750_000_000_000,
            status=large_cluster.status(node, which, extensions(node, which)),
        )
        packed = gzip.compress(request.SerializeToString(), compresslevel=6)
        found.append(b"\1" + len(packed).to_bytes(4, "big") + packed)
    return found


def token(name: str) -> str:
    """As a service account's, about a kilobyte; that of a node is named by its number."""
    claims = {
        "aud": [MANAGER_AUDIENCE],
        "exp": 4_000_000_000,
        "jti": name,
        "sub": f"system:serviceaccount:{large_cluster.NAMESPACE}:koordlet",
    }
    parts = (b'{"alg":"none"}', json.dumps(claims).encode(), random.Random(name).randbytes(500))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def _length(number: int) -> bytes:
    """As HPACK writes it, with a prefix of 7 bits."""
    if number < 127:
        return bytes([number])
    found, rest = bytearray([127]), number - 127
    while rest >= 128:
        found.append(rest % 128 + 128)
        rest //= 128
    return bytes([*found, rest])


def headers(shown: str) -> bytes:
    """A block of HPACK that needs no table, with this token."""

    def text(given: str) -> bytes:
        return _length(len(given)) + given.encode()

    block = b"\x83\x87\x04" + text("/koordinator.metrics.v1.NodeMetrics/Report")
    block += b"\x01" + text(SERVER)
    for name, value in (
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-encoding", "gzip"),
        ("grpc-timeout", "3S"),
        ("user-agent", "bench"),
        ("authorization", f"Bearer {shown}"),
    ):
        block += b"\x00" + text(name) + text(value)
    return block


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


# ---- the nodes, in a process of theirs

_DATA, _HEADERS, _SETTINGS, _PING, _GOAWAY = 0, 1, 4, 6, 7
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(_SETTINGS, 0, 0, b"")


@dataclass
class Answers:
    """``took`` are the seconds from when each report was due; ``refused`` is how many were."""

    took: list[float] = field(default_factory=list)
    refused: int = 0

    def summary(self) -> str:
        """A line, and from now on it counts anew."""
        line = json.dumps({"took": self.took, "refused": self.refused})
        self.took.clear()
        self.refused = 0
        return line


class Connection:
    """Of one node, or of some; ``answers`` hears of what becomes of reports."""

    def __init__(self, number: int, port: int, context: ssl.SSLContext, answers: Answers) -> None:
        self._answers = answers
        self._taken: set[int] = set()
        self._stream = 1
        self._due: dict[int, float] = {}
        self._unread = b""
        self._unsent = b""
        # Each node has an address of its own.
        source = (f"127.{1 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}", 0)
        raw = socket.create_connection(("127.0.0.1", port), source_address=source)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(raw, server_hostname=SERVER)
        self.socket.sendall(_PREFACE)
        self.socket.setblocking(False)

    def report(self, head: bytes, message: bytes, due: float) -> None:
        self._write(
            frame(_HEADERS, 0x4, self._stream, head) + frame(_DATA, 0x1, self._stream, message)
        )
        self._due[self._stream] = due
        self._stream += 2

    def read(self) -> None:
        while True:
            try:
                piece = self.socket.recv(16384)
            except (ssl.SSLWantReadError, BlockingIOError):
                break
            if not piece:
                raise SystemExit("bench: the manager hung up")
            self._unread += piece
        while len(self._unread) >= 9:
            end = 9 + int.from_bytes(self._unread[:3], "big")
            if len(self._unread) < end:
                return
            kind, flags = self._unread[3], self._unread[4]
            stream = int.from_bytes(self._unread[5:9], "big")
            payload, self._unread = self._unread[9:end], self._unread[end:]
            if kind in (_SETTINGS, _PING) and not flags & 1:
                self._write(frame(kind, 1, 0, payload if kind == _PING else b""))
            elif kind == _DATA:
                self._taken.add(stream)  # who is refused gets trailers alone
            elif kind == _HEADERS and flags & 1:
                self._answers.took.append(time.perf_counter() - self._due.pop(stream))
                self._answers.refused += stream not in self._taken
                self._taken.discard(stream)
            elif kind == _GOAWAY:
                raise SystemExit(f"bench: the manager will not go on: {payload!r}")

    def _write(self, given: bytes) -> None:
        self._unsent += given
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError, BlockingIOError):
            return  # with the next


class Nodes:
    """``count`` nodes from ``first`` on, each with a time of its own in every interval."""

    def __init__(self, first: int, count: int, gated: int) -> None:
        self._first = first
        extensions = ReportExtensions(gated).of if gated else _nothing
        self._sent = [
            (headers(token(str(node))), messages(node, extensions))
            for node in range(first, first + count)
        ]
        chance = random.Random(first)
        self._phases = sorted((chance.uniform(0, INTERVAL), number) for number in range(count))

    def report_for_ever(self, connections: Sequence[Connection], answers: Answers) -> None:
        """For ever; "mark" asks what became of reports since the last mark."""
        selector = selectors.DefaultSelector()
        selector.register(sys.stdin, selectors.EVENT_READ)
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        began, sent = time.perf_counter(), 0
        while True:
            while (due := began + self._due(sent)) <= time.perf_counter():
                turn, place = divmod(sent, len(self._phases))
                number = self._phases[place][1]
                head, variants = self._sent[number]
                which = large_cluster.variant(self._first + number, turn)
                connections[number % len(connections)].report(head, variants[which], due)
                sent += 1
            for key, _ in selector.select(min(0.005, max(0.0, due - time.perf_counter()))):
                if key.data is not None:
                    key.data.read()
                elif sys.stdin.readline() == "mark\n":
                    print(answers.summary(), flush=True)
                else:
                    os._exit(1)  # whom it reports for has gone

    def _due(self, number: int) -> float:
        turn, place = divmod(number, len(self._phases))
        return turn * INTERVAL + self._phases[place][0]


def main(first: int, count: int, connections: int, gated: int = 0) -> None:
    """Make the reports, ask where to connect, connect, and report; each step is said and waited.

    ``gated`` is the number of all nodes where features behind gates have them report more.
    """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    nodes = Nodes(first, count, gated)
    given = json.loads(sys.stdin.readline())
    context = ssl.create_default_context(cadata=given["authority"])
    context.set_alpn_protocols(["h2"])
    answers = Answers()
    opened = [
        Connection(first + number, given["port"], context, answers) for number in range(connections)
    ]
    print("ready", flush=True)
    sys.stdin.readline()
    nodes.report_for_ever(opened, answers)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
