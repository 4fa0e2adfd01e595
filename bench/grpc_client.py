"""A gRPC client as a program: unary calls over a unix socket, each timed.

It sends what kubelets send and h2load does not: window updates, pings, header
blocks with a dynamic table. One process a run, so that nothing of the benchmark's
own is in the figures.

    python -m bench.grpc_client SOCKET METHOD --count N --callers N   # JSON on stdout
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc

from bench.load import Load

_Call = Callable[..., bytes]


def calls(socket: Path, method: str, *, count: int, callers: int = 1) -> Load:
    """Make empty calls in a process of its own; any that fails ends the benchmark."""
    command = [sys.executable, "-m", "bench.grpc_client", str(socket), method]
    command += ["--count", str(count), "--callers", str(callers)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: calls of {method} over {socket} failed:\n{done.stderr}")
    return Load(**json.loads(done.stdout))


def run(socket: str, method: str, count: int, callers: int) -> Load:
    """So many calls over one connection, by so many threads."""
    with grpc.insecure_channel(f"unix:{socket}", options=[("grpc.enable_http_proxy", 0)]) as made:
        stub: _Call = made.unary_unary(method)
        stub(b"", timeout=30, wait_for_ready=True)
        micros: list[int] = []
        workers = [
            threading.Thread(target=_work, args=(stub, count // callers, micros))
            for _ in range(callers)
        ]
        started = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds = time.perf_counter() - started
    if len(micros) != count // callers * callers:
        raise SystemExit("a call failed")
    return Load(sorted(micros), len(micros) / seconds)


def _work(stub: _Call, count: int, micros: list[int]) -> None:
    for _ in range(count):
        started = time.perf_counter_ns()
        stub(b"", timeout=30)
        micros.append((time.perf_counter_ns() - started) // 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("socket")
    parser.add_argument("method")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--callers", type=int, default=1)
    given = parser.parse_args()
    made = run(given.socket, given.method, given.count, given.callers)
    print(json.dumps(made._asdict()))


if __name__ == "__main__":
    main()
