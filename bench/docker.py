"""The proxy before a real dockerd, beside socat (the floor) and HAProxy (C).

The call is ``GET /_ping``, the least that dockerd answers. As in ``bench.relay``
every path is measured once a round, in turn.
"""

from __future__ import annotations

import contextlib
import tempfile
from functools import partial
from pathlib import Path

from bench import load, programs
from bench.report import Measure
from bench.series import Series, cpu_a_call, in_turn
from tests.support.dockerd import Dockerd

PING = "/_ping"
CALLS, BUSY_CALLS = 2000, 8000


def measure(rounds: int) -> list[Measure]:
    """``rounds`` turns of every path."""
    p50, p99, cpu, rate = Series(), Series(), Series(), Series()
    with tempfile.TemporaryDirectory(prefix="koord-bench-") as name, Dockerd() as dockerd:
        scratch, backend = Path(name), Path(dockerd.address)
        with contextlib.ExitStack() as stack:
            sockets, pids = _paths(stack, backend, scratch)
            idle = programs.rss_megabytes(pids["proxy"])
            for number in range(rounds):
                for path, socket in in_turn(sockets, number):
                    with cpu_a_call(pids.get(path), CALLS, partial(cpu.add, path)):
                        one = _ping(socket, scratch, CALLS)
                    p50.add(path, one.percentile(0.5))
                    p99.add(path, one.percentile(0.99))
                    if path != "socat":
                        # Its backlog is too short for so many clients at once.
                        rate.add(path, _ping(socket, scratch, BUSY_CALLS, connections=16).rate)
            loaded = programs.rss_megabytes(pids["proxy"])
    ours = p50.over("proxy")
    return [
        Measure("added p50, floor", "µs", ours, "socat", p50.over("socat"), 2.5),
        Measure("added p50", "µs", ours, "HAProxy", p50.over("HAProxy"), None),
        Measure("added p99", "µs", p99.over("proxy"), "HAProxy", p99.over("HAProxy"), None),
        Measure("CPU a call", "µs", cpu.median("proxy"), "HAProxy", cpu.median("HAProxy"), None),
        Measure(
            "time a call, 16 clients",
            "µs",
            1e6 / rate.median("proxy"),
            "HAProxy",
            1e6 / rate.median("HAProxy"),
            None,
        ),
        Measure("memory, idle", "MB", idle, "", None, None),
        Measure("memory, after all calls", "MB", loaded, "", None, None),
    ]


def _paths(
    stack: contextlib.ExitStack, backend: Path, scratch: Path
) -> tuple[dict[str, Path], dict[str, int]]:
    sockets = {path: scratch / f"{path}.sock" for path in ("socat", "HAProxy", "proxy")}
    stack.enter_context(programs.socat(sockets["socat"], backend))
    haproxy = programs.haproxy(sockets["HAProxy"], backend, scratch, version="h1")
    ours = programs.proxy(sockets["proxy"], backend, hooks=scratch / "hooks", mode="Docker")
    pids = {"HAProxy": stack.enter_context(haproxy), "proxy": stack.enter_context(ours)}
    return {"direct": backend, **sockets}, pids


def _ping(socket: Path, scratch: Path, count: int, connections: int = 1) -> load.Load:
    return load.calls(
        socket,
        PING,
        count=count,
        connections=connections,
        body=None,
        scratch=scratch,
        http1=True,
    )
