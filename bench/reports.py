"""Nodes that report straight to the manager: what it costs, and how that grows with their number.

The receiver runs in a process of its own with TLS, the store, and the reading of each report by
noderesource; whose a token is it asks of an API server, another process. Each node has its own
connection, as in reality, and its own report and token: 50 pods, gzip as koordlet has it, one
report each 10 s at a time of its own. Clients are others' business here, so they speak just enough
HTTP/2 to send a message made beforehand.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import random
import resource
import selectors
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import report
from bench.programs import cpu_micros, rss_megabytes
from bench.report import Measure
from tests.support.certificates import Certificates, make_certificates
from tests.support.kube_aggregation import front_proxy_config_map

NODES, PODS, INTERVAL = 5_000, 50, 10.0
SWEEP = (1_000, 2_000, 5_000, 10_000, 20_000)
SECONDS = 45.0
"""For which the target's run is measured: most tokens are asked about anew. Others: a third."""

_ACCOUNT = "koordinator-system/koordlet"
_SPARE = 500  # descriptors of a process that are no nodes'
_PER_LOADER = 10_000


# ---- what a node sends


def status(node: int) -> bytes:
    """As koordlet makes it, for so many pods of one container."""
    chance = random.Random(node)

    def usage(cores: float, gibibytes: float) -> dict[str, Any]:
        cpu = f"{int(cores * 1000 * chance.random())}m"
        return {"resources": {"cpu": cpu, "memory": str(int(gibibytes * chance.random() * 2**30))}}

    windows = [
        {
            "usage": {kind: usage(64, 256) for kind in ("avg", "p50", "p90", "p95", "p99")},
            "duration": duration,
        }
        for duration in ("5m0s", "10m0s", "30m0s")
    ]
    pods = [
        {
            "name": f"pod-{chance.getrandbits(40):x}-{number}",
            "namespace": f"team-{number % 7}",
            "podUsage": usage(2, 4),
            "priority": "koord-prod",
            "qos": "LS",
        }
        for number in range(PODS)
    ]
    found = {
        "updateTime": "2026-11-20T10:00:00Z",
        "nodeMetric": {
            "nodeUsage": usage(64, 256),
            "systemUsage": usage(4, 8),
            "aggregatedNodeUsages": windows,
            "aggregatedSystemUsages": windows,
        },
        "podsMetric": pods,
        "prodReclaimableMetric": {"resource": usage(16, 64)},
    }
    return json.dumps(found, separators=(",", ":")).encode()


def message(node: int) -> bytes:
    """A gRPC message of the report, compressed."""
    from koord_proto.node_metric_pb2 import ReportRequest

    request = ReportRequest(
        node=f"node-{node}",
        session=f"session-{node}",
        sequence=1,  # the last report again is taken, and costs the same
        reported_at_ms=1_750_000_000_000,
        status=status(node),
    )
    packed = gzip.compress(request.SerializeToString(), compresslevel=6)
    return b"\1" + len(packed).to_bytes(4, "big") + packed


def token(node: int) -> str:
    """As long as a service account's, about a kilobyte; says whose it is."""
    return f"{node}." + base64.urlsafe_b64encode(random.Random(node).randbytes(700)).decode()


def _length(number: int) -> bytes:
    """As HPACK writes it, with a prefix of 7 bits."""
    if number < 127:
        return bytes([number])
    found, rest = bytearray([127]), number - 127
    while rest >= 128:
        found.append(rest % 128 + 128)
        rest //= 128
    return bytes([*found, rest])


def headers(node: int) -> bytes:
    """A block of HPACK that needs no table."""

    def text(given: str) -> bytes:
        return _length(len(given)) + given.encode()

    block = b"\x83\x87\x04" + text("/koordinator.metrics.v1.NodeMetrics/Report")
    block += b"\x01" + text("localhost")
    for name, value in (
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-encoding", "gzip"),
        ("grpc-timeout", "3S"),
        ("user-agent", "bench"),
        ("authorization", f"Bearer {token(node)}"),
    ):
        block += b"\x00" + text(name) + text(value)
    return block


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


# ---- the nodes, in a process of theirs

_DATA, _HEADERS, _SETTINGS, _PING, _GOAWAY = 0, 1, 4, 6, 7
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(_SETTINGS, 0, 0, b"")


class Node:
    """One connection; ``took`` gets the seconds of each answer."""

    def __init__(self, number: int, port: int, context: ssl.SSLContext, took: list[float]) -> None:
        self._headers, self._message = headers(number), message(number)
        self._took = took
        self._stream = 1
        self._sent = 0.0
        self._unread = b""
        self._unsent = b""
        # Ports run out for one pair of addresses.
        source = (f"127.0.{1 + number // 20_000}.{1 + number % 200}", 0)
        raw = socket.create_connection(("127.0.0.1", port), source_address=source)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(raw, server_hostname="localhost")
        self.socket.sendall(_PREFACE)
        self.socket.setblocking(False)

    def report(self) -> None:
        self._write(
            frame(_HEADERS, 0x4, self._stream, self._headers)
            + frame(_DATA, 0x1, self._stream, self._message)
        )
        self._sent = time.perf_counter()
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
            payload, self._unread = self._unread[9:end], self._unread[end:]
            if kind in (_SETTINGS, _PING) and not flags & 1:
                self._write(frame(kind, 1, 0, payload if kind == _PING else b""))
            elif kind == _HEADERS and flags & 1:
                self._took.append(time.perf_counter() - self._sent)
            elif kind == _GOAWAY:
                raise SystemExit(f"bench: the manager will not go on: {payload!r}")

    def _write(self, given: bytes) -> None:
        self._unsent += given
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError, BlockingIOError):
            return  # with the next


def load(port: int, authority: str, first: int, count: int) -> None:
    """Connect, say so, and report until told to stop; "mark" begins the measurement."""
    context = ssl.create_default_context(cafile=authority)
    context.set_alpn_protocols(["h2"])
    took: list[float] = []
    nodes = [Node(first + number, port, context, took) for number in range(count)]
    print("ready", flush=True)
    sys.stdin.readline()
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    for node in nodes:
        selector.register(node.socket, selectors.EVENT_READ, node)
    began, sent = time.perf_counter(), 0
    while True:
        due = int((time.perf_counter() - began) * count / INTERVAL)
        while sent < due:
            nodes[sent % count].report()
            sent += 1
        for key, _ in selector.select(0.005):
            if key.data is not None:
                key.data.read()
            elif sys.stdin.readline() == "mark\n":
                took.clear()
            else:
                print(json.dumps(took), flush=True)
                os._exit(0)  # not one close after the other


# ---- the API server, as far as tokens go, in a process of its own


def review() -> None:
    """Says of each token whose it is; and of a front proxy, which is never seen."""
    from aiohttp import web

    async def answer(request: web.Request) -> web.Response:
        given = json.loads(await request.read())
        node = given["spec"]["token"].partition(".")[0]
        user = {
            "username": "system:serviceaccount:koordinator-system:koordlet",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/node-name": [f"node-{node}"]},
        }
        done = {**given, "status": {"authenticated": True, "user": user}}
        return web.json_response(done, status=201)

    async def serve() -> None:
        app = web.Application()
        app.router.add_post("/{tail:.*}", answer)
        app.router.add_get("/{tail:.*}", front_proxy)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    async def front_proxy(_request: web.Request) -> web.Response:
        return web.json_response(front_proxy_config_map("none", "", "none"))

    asyncio.run(serve())


# ---- the manager


def serve(folder: str, reviews: int) -> None:
    """Take reports; a line on stdin asks how many were taken, and what is kept."""
    import uvloop
    from koord_kube.client import Client, Cluster, Limits
    from koord_manager.metrics_api import service
    from koord_manager.metrics_api.credentials import Pair
    from koord_manager.metrics_api.receiver import Standing
    from koord_manager.reconcilers.node_resource.facts import metric_summary
    from prometheus_client import CollectorRegistry

    made = Path(folder)
    pair = Pair((made / "server.crt").read_bytes(), (made / "server.key").read_bytes())
    registry = CollectorRegistry()

    async def run() -> None:
        limits = Limits(qps=5_000, burst=5_000)
        async with Client(Cluster(f"http://127.0.0.1:{reviews}"), limits) as client:
            manager = service.NodeMetricService(
                client,
                lambda: Standing(leads=True),
                lambda: pair,
                service.Cluster(
                    lambda: (),
                    lambda _name: None,
                    lambda _node, given, _at: _discard(metric_summary(given)),
                ),
                _ACCOUNT,
                registry,
            )
            await manager.start(("127.0.0.1", 0), ("127.0.0.1", 0))
            manager.lead(1)
            print(manager.report_port, flush=True)
            loop = asyncio.get_running_loop()
            async with asyncio.TaskGroup() as group:
                group.create_task(manager.run())
                while await loop.run_in_executor(None, sys.stdin.readline):
                    taken = registry.get_sample_value(
                        "koord_manager_node_metric_reports_total", {"code": "OK"}
                    )
                    told = {"taken": taken, "kept": len(manager.store)}
                    print(json.dumps(told), flush=True)
                os._exit(0)

    uvloop.run(run())


def _discard(_given: object) -> None:
    pass


# ---- the measurement


@dataclass(frozen=True)
class Run:
    """What some nodes cost; ``rate`` is of reports taken a second, answers are in milliseconds."""

    nodes: int
    cores: float
    mebibytes: float
    rate: float
    p50: float
    p99: float

    @property
    def held(self) -> bool:
        """Whether the reports were taken as they came; if not, one process is at its end."""
        return self.rate > 0.98 * self.nodes / INTERVAL


def run(nodes: int, certificates: Certificates, seconds: float) -> Run:
    """All nodes connect, report for an interval, and then it counts."""
    with ExitStack() as stack:
        reviews = stack.enter_context(_program("review"))
        folder = str(certificates.certificate.parent)
        manager = stack.enter_context(_program("serve", folder, reviews.stdout.readline().strip()))
        port = manager.stdout.readline().strip()
        loaders = [
            stack.enter_context(
                _program("load", port, str(certificates.authority), str(first), str(count))
            )
            for first, count in _shares(nodes)
        ]
        for one in loaders:
            if one.stdout.readline() != "ready\n":
                raise SystemExit("bench: a node does not connect")
        _tell(loaders, "go")
        time.sleep(1.5 * INTERVAL)
        before, spent = _taken(manager), cpu_micros(manager.pid)
        began = time.perf_counter()
        _tell(loaders, "mark")
        time.sleep(seconds)
        spent = cpu_micros(manager.pid) - spent
        lasted = time.perf_counter() - began
        after, memory = _taken(manager), rss_megabytes(manager.pid)
        _tell(loaders, "stop")
        took = sorted(one for loader in loaders for one in json.loads(loader.stdout.readline()))
    rate = (after - before) / lasted
    p99 = took[int(0.99 * len(took))] * 1000
    return Run(nodes, spent / 1e6 / lasted, memory, rate, statistics.median(took) * 1000, p99)


def measure(
    seconds: float = SECONDS, sweep: Sequence[int] = SWEEP
) -> tuple[list[Measure], list[Run]]:
    """The target's figures, and runs of as many nodes as the limit of open files allows."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - _SPARE
    with tempfile.TemporaryDirectory() as folder:
        certificates = make_certificates(Path(folder))
        counts = sorted({min(count, most) for count in sweep})
        runs = []
        for one in counts:
            runs.append(run(one, certificates, seconds if one == NODES else seconds / 3))
            print(runs[-1], flush=True)
    found = next(one for one in runs if one.nodes == NODES)
    if not found.held:
        raise SystemExit(f"bench: {found.rate:.0f} reports a second were taken of {NODES} nodes")
    name = f"{NODES} nodes × {PODS} pods, each {INTERVAL:g} s"
    measures = [
        Measure(f"{name}: CPU", "cores", found.cores, "", None, 1.0),
        Measure(f"{name}: RSS", "MiB", found.mebibytes, "", None, 600.0),
        Measure(f"{name}: answer, p50", "ms", found.p50, "", None, None),
        Measure(f"{name}: answer, p99", "ms", found.p99, "", None, None),
    ]
    return measures, runs


def settings(runs: Sequence[Run]) -> dict[str, object]:
    """How it was measured, for the page of results."""
    size = statistics.mean(len(status(node)) for node in range(20))
    sent = statistics.mean(len(message(node)) for node in range(20))
    return {
        **{
            f"{one.nodes} nodes": f"{one.cores:.2f} cores, {one.mebibytes:.0f} MiB, "
            f"{one.rate:.0f} of {one.nodes / INTERVAL:.0f} reports a second"
            for one in runs
        },
        "connections": "one a node, TLS, its own token",
        "status": f"{size:.0f} bytes, {sent:.0f} as sent",
    }


def plot(runs: Sequence[Run], name: str = "reports") -> None:
    """CPU and memory by the number of nodes."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    nodes = [one.nodes for one in runs]
    left.plot(nodes, [one.cores for one in runs], "o-")
    for one in runs:
        if not one.held:
            said = f"{100 * one.rate * INTERVAL / one.nodes:.0f} % taken"
            left.annotate(said, (one.nodes, one.cores), (-70, -14), textcoords="offset points")
    left.set(ylabel="cores", title="CPU of the manager")
    right.plot(nodes, [one.mebibytes for one in runs], "o-", color="tab:orange")
    right.set(ylabel="MiB", title="RSS of the manager")
    for axes, bound in ((left, 1.0), (right, 600.0)):
        axes.plot([NODES], [bound], "_", color="black", markersize=24)
        axes.annotate("target", (NODES, bound), textcoords="offset points", xytext=(14, -3))
        axes.set(xlabel=f"nodes × {PODS} pods, each {INTERVAL:g} s", ylim=(0, None), xlim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
    report.RESULTS.mkdir(exist_ok=True)
    figure.savefig(report.RESULTS / f"{name}.png", dpi=110)
    plt.close(figure)


@contextmanager
def _program(*words: str) -> Iterator[Any]:
    """This module as another program, spoken with by lines."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "bench.reports", *words]
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _shares(nodes: int) -> list[tuple[int, int]]:
    return [(first, min(_PER_LOADER, nodes - first)) for first in range(0, nodes, _PER_LOADER)]


def _tell(loaders: Sequence[Any], word: str) -> None:
    for one in loaders:
        one.stdin.write(f"{word}\n")
        one.stdin.flush()


def _taken(manager: Any) -> float:
    _tell([manager], "how many")
    return float(json.loads(manager.stdout.readline())["taken"])


def _raise_limit() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    _raise_limit()
    match sys.argv[1:]:
        case ["serve", folder, reviews]:
            serve(folder, int(reviews))
        case ["review"]:
            review()
        case ["load", port, authority, first, count]:
            load(int(port), authority, int(first), int(count))
        case counts:
            measures, runs = measure(SECONDS, [int(one) for one in counts] or SWEEP)
            print(report.table(measures))
            report.write(measures, "reports", settings(runs))
            plot(runs)


if __name__ == "__main__":
    main()
