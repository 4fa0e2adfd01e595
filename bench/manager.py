"""koord-manager itself, with all its usual parts, before the lean double of the API server."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from bench.large_cluster import NAMESPACE
from bench.programs import BIN

WRITES = 1000
"""A second, at most: as many as are to be done, so that they are in what is measured."""

_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: double, user: manager}}}}]
clusters: [{{name: double, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: manager, user: {{token: manager}}}}]
"""
_SAMPLE = re.compile(r"^(koord_manager_\w+(?:{[^}]*})?) (\S+)$", re.MULTILINE)

T = TypeVar("T")


@dataclass(frozen=True)
class Manager:
    """One that runs; ``started`` by a steady clock. Its answers come through ``metrics``."""

    pid: int
    api_port: int
    port: int
    health_port: int
    webhook_port: int
    report_port: int
    started: float
    log: Path

    def metrics(self) -> dict[str, float]:
        text = _read(f"http://127.0.0.1:{self.port}/metrics").decode()
        return {name: float(value) for name, value in _SAMPLE.findall(text)}

    def ready(self) -> bool:
        return bool(_read(f"http://127.0.0.1:{self.health_port}/readyz"))

    def authority(self) -> str:
        """Read the authority that nodes trust."""
        where = f"/api/v1/namespaces/{NAMESPACE}/configmaps/koordinator-manager-ca"
        found = json.loads(_read(f"http://127.0.0.1:{self.api_port}{where}") or "{}")
        return str((found.get("data") or {}).get("ca.crt", ""))

    def waiting(self) -> float:
        """Objects in the queues of its controllers."""
        return sum(value for name, value in self.metrics().items() if name.startswith(_QUEUES))

    def writes(self) -> dict[str, int]:
        """Return the number of writes by verb and kind, without reviews of tokens."""
        found = json.loads(_read(f"http://127.0.0.1:{self.api_port}/bench/writes"))
        return {name: many for name, many in found.items() if "reviews" not in name}

    def until(self, found: Callable[[], T], what: str, seconds: float) -> T:
        """Wait for a value; return it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(URLError, ConnectionError, TimeoutError):
                if answer := found():
                    return answer
            time.sleep(0.25)
        said = self.log.read_text(errors="replace")[-2000:]
        raise SystemExit(f"bench: koord-manager: {what} not within {seconds:g} s\n{said}")


_QUEUES = "koord_manager_queue_length{"


def _read(url: str) -> bytes:
    """Nothing where the answer is no good."""
    try:
        with urlopen(url, timeout=10) as answer:
            return bytes(answer.read())
    except HTTPError:
        return b""


@contextlib.contextmanager
def program(module: str, *words: str) -> Iterator[Any]:
    """A module as another program, spoken with by lines."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", module, *words]
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def running_manager(folder: Path, nodes: int, gates: Sequence[str] = ()) -> Iterator[Manager]:
    """A cluster of so many nodes, and the manager, just started.

    With ``gates`` ("NAME=true") there are objects for the features behind them.
    """
    with program("bench.lean_api", str(nodes), *(("gated",) if gates else ())) as api:
        api_port = int(json.loads(api.stdout.readline())["port"])
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(_KUBECONFIG.format(port=api_port))
        port, health, webhooks, reports, served = _free(5)
        command = [
            str(BIN / "koord-manager"),
            f"--kubeconfig={kubeconfig}",
            f"--metrics-addr=127.0.0.1:{port}",
            f"--health-probe-addr=127.0.0.1:{health}",
            f"--webhook-address=127.0.0.1:{webhooks}",
            f"--node-metric-api-address=127.0.0.1:{served}",
            f"--node-metric-report-address=127.0.0.1:{reports}",
            "--enable-node-metric-api",
            "--pod-ip=127.0.0.1",
            "--pod-name=bench",
            f"--rest-config-qps={WRITES}",
            f"--rest-config-burst={WRITES}",
            f"--feature-gates={','.join(gates)}",
        ]
        log = folder / "manager.log"
        with log.open("w") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said)
        began = time.monotonic()
        try:
            yield Manager(process.pid, api_port, port, health, webhooks, reports, began, log)
        finally:
            process.kill()
            process.wait()


def _free(count: int) -> list[int]:
    """Ports that nobody listens at now."""
    opened = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in opened]
    for one in opened:
        one.close()
    return ports
