"""koord-scheduler beside kube-scheduler: a real API server, in turns, until all pods are bound.

``python -m bench.scheduler_peer`` needs kube-apiserver, kube-scheduler, etcd and kubectl in the
folder that KUBEBUILDER_ASSETS names; it writes bench/results/scheduler_peer.*.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import msgspec
import uvloop
from koord_kube.client import Limits
from koord_kube.connect import connect
from koord_kube.http2_writer import Http2Writer
from koord_kube.informer import Informer
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import EVENTS, NAMESPACES, NODES, PODS, Resource

from bench import programs, report
from bench.report import Measure
from bench.scheduler_core import node, pod
from tests.support import kube_apiserver
from tests.support.kube_apiserver import ADMIN, ASSETS, KubeApiserver
from tests.support.network import OwnNetwork
from tests.support.processes import Program

ROUNDS = 2
KINDS = 40
LIMIT_SECONDS = 300.0
EVENTS_SECONDS = 60.0
_WHY = {
    "time to bind a pod": "The API server, etcd and the scheduler share two cores, and the API "
    "server takes most of them; the start of the program, 0.8 s, is part of it.",
    "CPU a pod": "The start of the program, 0.8 s of CPU, is part of it.",
}
"""What holds back what is missed."""
_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)


class _Spec(msgspec.Struct):
    node: str = msgspec.field(default="", name="nodeName")


class _Pod(msgspec.Struct):
    spec: _Spec


_POD = msgspec.json.Decoder(_Pod)


@dataclass(frozen=True, slots=True)
class Load:
    """So many nodes, and pods that all wait when a scheduler starts."""

    nodes: int
    pods: int
    spreads: bool

    def __str__(self) -> str:
        return f"{self.nodes:,} nodes, {'spread' if self.spreads else 'plain'}"


LOADS = (
    Load(1_000, 5_000, False),
    Load(5_000, 5_000, False),
    Load(5_000, 3_000, True),
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One scheduler over one load: pods a second overall and from the 10th to the 90th percent.

    CPU in milliseconds a pod, memory in MB; ``events`` is after how many seconds from the start
    each pod had its Event, infinite if some had none.
    """

    overall: float
    steady: float
    cpu: float
    server_cpu: float
    memory: float
    events: float


def why_not() -> str | None:
    """What keeps this bench from running."""
    folder = os.environ.get(ASSETS)
    if not folder or shutil.which("kube-scheduler", path=folder) is None:
        return f"no kube-scheduler in the folder that {ASSETS} names"
    return kube_apiserver.why_not()


def ours(kubeconfig: Path, _folder: Path) -> list[str]:
    flags = ["--leader-elect=false", "--port=0", "--log-level=warning"]
    return [sys.executable, "-m", "koord_scheduler", f"--kubeconfig={kubeconfig}", *flags]


def theirs(kubeconfig: Path, folder: Path) -> list[str]:
    config = folder / "kube-scheduler.yaml"
    client = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000}
    given = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": client,
        "leaderElection": {"leaderElect": False},
    }
    config.write_text(json.dumps(given))
    program = shutil.which("kube-scheduler", path=os.environ[ASSETS]) or ""
    flags = ["--secure-port=0", "--authentication-skip-lookup=true", "--v=0"]
    return [program, f"--config={config}", *flags]


SCHEDULERS = {"koord-scheduler": ours, "kube-scheduler": theirs}


async def turn(load: Load, command: Callable[[Path, Path], list[str]]) -> Turn:
    """A fresh API server with the load, and one scheduler beside it."""
    with tempfile.TemporaryDirectory(prefix="pykoord-bench-") as name:
        folder = Path(name)
        with OwnNetwork() as own, KubeApiserver(folder, own) as server:
            kubeconfig = server.kubeconfig("scheduler", ADMIN)
            async with await connect(str(kubeconfig), Limits(qps=0)) as client:
                writer = Http2Writer(client.cluster, deadline=60.0)
                try:
                    await _fill(load, writer.write)
                finally:
                    await writer.close()
                bound: list[float] = []
                seen: set[str] = set()

                def changed(key: str, _: _Pod | None, now: _Pod | None) -> None:
                    if now is not None and now.spec.node and key not in seen:
                        seen.add(key)
                        bound.append(time.monotonic())

                pods = Informer(client, PODS, decode=_POD.decode, on_change=changed)
                async with anyio.create_task_group() as group:
                    group.start_soon(pods.run)
                    await pods.wait_synced()
                    await anyio.sleep(3)  # what the server does after a burst of writes
                    scheduler = Program("scheduler", folder)
                    try:
                        found = await _watch(
                            load, scheduler, server, command(kubeconfig, folder), bound, client
                        )
                    finally:
                        scheduler.close()
                    group.cancel_scope.cancel()
                return found


async def _watch(
    load: Load,
    scheduler: Program,
    server: KubeApiserver,
    command: Sequence[str],
    bound: list[float],
    client: Any,
) -> Turn:
    server_before, began = programs.cpu_micros(server.pid), time.monotonic()
    scheduler.spawn(command)
    while len(bound) < load.pods:
        await anyio.sleep(0.05)
        assert time.monotonic() - began < LIMIT_SECONDS, scheduler.said[-2000:]
    cpu = programs.cpu_micros(scheduler.pid)
    server_cpu = programs.cpu_micros(server.pid) - server_before
    events = await _events(load, client, began)
    low, high = bound[load.pods // 10], bound[load.pods * 9 // 10]
    return Turn(
        load.pods / (bound[-1] - began),
        0.8 * load.pods / (high - low),
        cpu / 1000 / load.pods,
        server_cpu / 1000 / load.pods,
        programs.peak_megabytes(scheduler.pid),
        events,
    )


async def _events(load: Load, client: Any, began: float) -> float:
    while time.monotonic() - began < EVENTS_SECONDS:
        number = 0
        async for page in client.pages(EVENTS, "", "reason=Scheduled"):
            number += len(page.items)
        if number >= load.pods:
            return time.monotonic() - began
        await anyio.sleep(0.5)
    return float("inf")


async def _fill(load: Load, write: Callable[[Request], Awaitable[bytes]]) -> None:
    await write(_create(NAMESPACES, {"metadata": {"name": "team"}}))
    await write(_create(_ACCOUNTS, {"metadata": {"name": "default"}}, "team"))

    async def add_node(number: int) -> None:
        given = json.loads(node(number))
        name = given["metadata"]["name"]
        await write(_create(NODES, {"metadata": given["metadata"]}))
        await write(Request("PATCH", NODES, name, "", "status", {"status": given["status"]}))
        # The API server takes new nodes for not ready.
        await write(Request("PATCH", NODES, name, body={"spec": {"taints": None}}))

    async def add_pod(number: int) -> None:
        given = json.loads(pod(number, number % KINDS, spreads=load.spreads))
        del given["metadata"]["uid"]
        await write(_create(PODS, given, "team"))

    await _all(add_node, range(load.nodes))
    await _all(add_pod, range(load.pods))


def _create(resource: Resource, given: dict[str, Any], namespace: str = "") -> Request:
    body = {"apiVersion": resource.version, "kind": resource.kind, **given}
    return Request("POST", resource, "", namespace, body=body)


async def _all(do: Callable[[int], Awaitable[None]], numbers: Iterable[int]) -> None:
    left = iter(numbers)

    async def work() -> None:
        for number in left:
            await do(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(32):
            group.create_task(work())


def measures_of(load: Load, turns: dict[str, list[Turn]]) -> list[Measure]:
    found = []
    figures: list[tuple[str, str, Callable[[Turn], float], float | None]] = [
        ("time to bind a pod", "ms", lambda one: 1000 / one.overall, 1 / 3),
        ("the same, 10–90 %", "ms", lambda one: 1000 / one.steady, None),
        ("CPU a pod", "ms", lambda one: one.cpu, 0.25),
        ("API server's CPU a pod", "ms", lambda one: one.server_cpu, None),
        ("memory", "MB", lambda one: one.memory, None),
        ("last Event after", "s", lambda one: one.events, None),
    ]
    for name, unit, value, target in figures:
        both = {who: [value(one) for one in taken] for who, taken in turns.items()}
        mine, peer = (statistics.median(both[who]) for who in SCHEDULERS)
        ratios = [one / other for one, other in zip(*both.values(), strict=True)]
        interval = report.median_interval(ratios)
        label = f"{load}: {name}"
        why = _WHY.get(name, "")
        found.append(Measure(label, unit, mine, "kube-scheduler", peer, target, why, interval))
    return found


def main(rounds: int = ROUNDS) -> None:
    if (reason := why_not()) is not None:
        print(f"scheduler_peer left out: {reason}")
        return
    measures = []
    for load in LOADS:
        turns: dict[str, list[Turn]] = {who: [] for who in SCHEDULERS}
        for _ in range(rounds):
            for who, command in SCHEDULERS.items():
                turns[who].append(uvloop.run(turn(load, command)))
                print(f"{load}, {who}: {turns[who][-1]}", flush=True)
        measures += measures_of(load, turns)
    print(report.table(measures))
    settings = {"rounds": rounds, "pods": f"{KINDS} classes, all waiting at the start"}
    report.write(measures, "scheduler_peer", settings)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.scheduler_peer", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    main(parser.parse_args().rounds)
