"""A relayed call: the proxy beside socat (the floor) and HAProxy (C).

Backends are real: containerd, and nginx for a large constant answer. In each
round every path is measured once, in turn, so that a machine that slows down
slows all of them down; figures are medians over the rounds. The clients are h2load,
which costs least itself, and grpcio, which speaks as kubelets do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import grpc_client, load, programs
from bench.load import Load
from bench.report import Measure
from bench.series import Series, cpu_a_call, in_turn

VERSION = "/runtime.v1.RuntimeService/Version"
LIST = "/runtime.v1.RuntimeService/ListContainers"
LARGE = 400_000
CALLS, BUSY_CALLS, LARGE_CALLS = 2000, 8000, 300

Added = dict[str, dict[str, float]]
Client = Callable[..., Load]
"""Makes ``count`` calls of a method at a socket, ``callers`` at a time."""

_NEAR = (
    "The proxy's own work is about 5 µs a call; the rest is two wake-ups and four "
    "system calls, as in HAProxy."
)


class _Clients:
    """Measurements of one client on each path."""

    def __init__(self, call: Client) -> None:
        self.call = call
        self.p50, self.p99, self.seconds = Series(), Series(), Series()
        self.cpu, self.busy_cpu = Series(), Series()

    def turn(self, path: str, socket: Path, pid: int | None) -> None:
        with cpu_a_call(pid, CALLS, partial(self.cpu.add, path)):
            one = self.call(socket, VERSION, count=CALLS)
        with cpu_a_call(pid, BUSY_CALLS, partial(self.busy_cpu.add, path)):
            many = self.call(socket, VERSION, count=BUSY_CALLS, callers=16)
        self.p50.add(path, one.percentile(0.5))
        self.p99.add(path, one.percentile(0.99))
        self.seconds.add(path, 1e6 / many.rate)


def relayed(backend: Path, scratch: Path, rounds: int) -> tuple[list[Measure], Added]:
    """Version, by both clients."""
    body = load.message(scratch, "empty", b"")
    clients = {
        "h2load": _Clients(partial(load.calls, body=body, scratch=scratch)),
        "grpcio": _Clients(grpc_client.calls),
    }
    with contextlib.ExitStack() as stack:
        sockets, pids = _paths(stack, backend, scratch, "version")
        for number in range(rounds):
            for client in clients.values():
                for path, socket in in_turn(sockets, number):
                    client.turn(path, socket, pids.get(path))
    plain = clients["h2load"]
    added = {
        path: {"p50": plain.p50.over(path), "p99": plain.p99.over(path)}
        for path in ("socat", "HAProxy", "proxy")
    }
    return _by_h2load(plain) + _by_grpcio(clients["grpcio"]), added


def _by_h2load(seen: _Clients) -> list[Measure]:
    return [
        _added("added p50, 1 caller", seen.p50, "HAProxy", 1.0),
        _added("added p50, 1 caller, floor", seen.p50, "socat", 2.0),
        _added("added p99, 1 caller", seen.p99, "HAProxy"),
        _each("CPU a call, 1 caller", seen.cpu, 1.3),
        _each("CPU a call, 16 callers", seen.busy_cpu),
        _each("time a call, 16 callers", seen.seconds),
    ]


def _by_grpcio(seen: _Clients) -> list[Measure]:
    return [
        _added("added p50, 1 caller, grpcio", seen.p50, "HAProxy"),
        _added("added p99, 1 caller, grpcio", seen.p99, "HAProxy"),
        _each("CPU a call, 1 caller, grpcio", seen.cpu),
        _each("time a call, 16 callers, grpcio", seen.seconds),
    ]


def _added(name: str, seen: Series, peer: str, target: float | None = None) -> Measure:
    """Cost that the proxy adds to a direct call, beside that of a peer."""
    interval = seen.ratio_interval("proxy", peer, "direct")
    return Measure(
        name, "µs", seen.over("proxy"), peer, seen.over(peer), target, _NEAR, interval=interval
    )


def _each(name: str, seen: Series, target: float | None = None) -> Measure:
    ours, theirs = seen.median("proxy"), seen.median("HAProxy")
    interval = seen.ratio_interval("proxy", "HAProxy")
    return Measure(name, "µs", ours, "HAProxy", theirs, target, _NEAR, interval=interval)


def large(scratch: Path, rounds: int) -> list[Measure]:
    """An answer of 400 KB."""
    root = scratch / "root"
    answer = root / LIST.removeprefix("/")
    answer.parent.mkdir(parents=True)
    load.message(answer.parent, answer.name, bytes(LARGE))
    backend, p50 = scratch / "nginx.sock", Series()
    with contextlib.ExitStack() as stack:
        stack.enter_context(programs.nginx(backend, root, scratch))
        sockets, _ = _paths(stack, backend, scratch, "large")
        for number in range(rounds):
            for path, socket in in_turn(sockets, number):
                one = load.calls(socket, LIST, count=LARGE_CALLS, body=None, scratch=scratch)
                p50.add(path, one.percentile(0.5))
    why = "Each chunk that is read is written in one piece, but crosses Python once."
    ours, theirs = p50.over("proxy"), p50.over("HAProxy")
    interval = p50.ratio_interval("proxy", "HAProxy", "direct")
    return [
        Measure(
            "added p50, 400 KB answer", "µs", ours, "HAProxy", theirs, 1.0, why, interval=interval
        )
    ]


def _paths(
    stack: contextlib.ExitStack, backend: Path, scratch: Path, tag: str
) -> tuple[dict[str, Path], dict[str, int]]:
    """The four paths to a backend: their sockets, and the pids of those that are ours or C."""
    sockets = {path: scratch / f"{tag}-{path}.sock" for path in ("socat", "HAProxy", "proxy")}
    hooks = scratch / f"{tag}-hooks"
    stack.enter_context(programs.socat(sockets["socat"], backend))
    pids = {
        "HAProxy": stack.enter_context(programs.haproxy(sockets["HAProxy"], backend, scratch)),
        "proxy": stack.enter_context(programs.proxy(sockets["proxy"], backend, hooks=hooks)),
    }
    return {"direct": backend, **sockets}, pids
