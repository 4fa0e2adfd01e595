"""koord-scheduler beside kube-scheduler: a real API server, in turns, until all pods are bound.

Beside the smallest load also runs a null scheduler (``null_scheduler``), which gives nodes their
turns and writes as koord-scheduler does: what the API can do, with and without Events. A program
``null-scheduler`` in the folder that KUBEBUILDER_ASSETS names is one more peer, with Events:
``null-scheduler KUBECONFIG`` has to bind all pods of the namespace ``default``.

``python -m bench.scheduler_peer`` needs kube-apiserver, kube-scheduler, etcd and kubectl in that
folder; it writes bench/results/scheduler_peer.* and, beside null schedulers, scheduler_null.*.
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
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
from koord_kube.protocol.resources import EVENTS, NODES, PODS, Resource
from koord_kube.protocol.selectors import field_is

from bench import programs, report
from bench.report import Measure
from bench.scheduler_core import node, pod
from tests.support import kube_apiserver
from tests.support.kube_apiserver import ADMIN, ASSETS, KubeApiserver
from tests.support.network import OwnNetwork
from tests.support.processes import Program

ROUNDS = 2
KINDS = 40
NAMESPACE = "default"
LIMIT_SECONDS = 300.0
EVENTS_SECONDS = 60.0
_WHY = {
    "time to bind a pod": "The API server, etcd and the scheduler share two cores, and the API "
    "server takes most of them; the start of the program, 0.8 s, is part of it.",
    "CPU a pod": "The start of the program, 0.8 s of CPU, is part of it.",
}
"""Reasons for missed targets."""
_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
_PODS_NOTE = f"{KINDS} classes, all waiting at the start"


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
    events: float = 0.0


def why_not() -> str | None:
    """Return why this bench cannot run here."""
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


def null_with_events(kubeconfig: Path, folder: Path) -> list[str]:
    return [*null_without_events(kubeconfig, folder), "--events"]


def null_without_events(kubeconfig: Path, _folder: Path) -> list[str]:
    return [sys.executable, "-m", "bench.null_scheduler", str(kubeconfig)]


def other_null(kubeconfig: Path, _folder: Path) -> list[str]:
    return [_other_null() or "", str(kubeconfig)]


def _other_null() -> str | None:
    return shutil.which("null-scheduler", path=os.environ.get(ASSETS))


OURS, THEIRS = "koord-scheduler", "kube-scheduler"
NULL, NO_EVENTS, OTHER_NULL = "null scheduler", "null scheduler without Events", "null-scheduler"
Command = Callable[[Path, Path], list[str]]


def nulls() -> dict[str, Command]:
    """All null schedulers that are there."""
    found: dict[str, Command] = {NULL: null_with_events, NO_EVENTS: null_without_events}
    return found | ({OTHER_NULL: other_null} if _other_null() else {})


async def turn(load: Load, command: Command, *, waits_for_events: bool = True) -> Turn:
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
                    scheduler, began = Program("scheduler", folder), time.monotonic()
                    try:
                        found = await _watch(
                            load, scheduler, server, command(kubeconfig, folder), bound
                        )
                        if waits_for_events:
                            found = replace(found, events=await _events(load, client, began))
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
) -> Turn:
    server_before, began = programs.cpu_micros(server.pid), time.monotonic()
    scheduler.spawn(command)
    while len(bound) < load.pods:
        await anyio.sleep(0.05)
        assert time.monotonic() - began < LIMIT_SECONDS, scheduler.said[-2000:]
    cpu = programs.cpu_micros(scheduler.pid)
    server_cpu = programs.cpu_micros(server.pid) - server_before
    low, high = bound[load.pods // 10], bound[load.pods * 9 // 10]
    return Turn(
        load.pods / (bound[-1] - began),
        0.8 * load.pods / (high - low),
        cpu / 1000 / load.pods,
        server_cpu / 1000 / load.pods,
        programs.peak_megabytes(scheduler.pid),
    )


async def _events(load: Load, client: Any, began: float) -> float:
    while time.monotonic() - began < EVENTS_SECONDS:
        number = 0
        async for page in client.pages(EVENTS, "", field_is("reason", "Scheduled")):
            number += len(page.items)
        if number >= load.pods:
            return time.monotonic() - began
        await anyio.sleep(0.5)
    return float("inf")


async def _fill(load: Load, write: Callable[[Request], Awaitable[bytes]]) -> None:
    async def add_node(number: int) -> None:
        given = json.loads(node(number))
        name = given["metadata"]["name"]
        await write(_create(NODES, {"metadata": given["metadata"]}))
        await write(Request("PATCH", NODES, name, "", "status", {"status": given["status"]}))
        # The API server takes new nodes for not ready.
        await write(Request("PATCH", NODES, name, body={"spec": {"taints": None}}))

    async def add_pod(number: int) -> None:
        given = json.loads(pod(number, number % KINDS, "spread" if load.spreads else "plain"))
        del given["metadata"]["uid"], given["metadata"]["namespace"]
        await write(_create(PODS, given, NAMESPACE))

    await write(_create(_ACCOUNTS, {"metadata": {"name": "default"}}, NAMESPACE))
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


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a turn; ``target`` is for ours over the peer's."""

    name: str
    unit: str
    value: Callable[[Turn], float]
    target: float | None = None


PEER_FIGURES = (
    Figure("time to bind a pod", "ms", lambda one: 1000 / one.overall, 1 / 3),
    Figure("the same, 10–90 %", "ms", lambda one: 1000 / one.steady),
    Figure("CPU a pod", "ms", lambda one: one.cpu, 0.25),
    Figure("API server's CPU a pod", "ms", lambda one: one.server_cpu),
    Figure("memory", "MB", lambda one: one.memory),
    Figure("last Event after", "s", lambda one: one.events),
)
NULL_FIGURES = (
    Figure("time to bind a pod, 10–90 %", "ms", lambda one: 1000 / one.steady, 1 / 0.9),
    Figure("CPU a pod", "ms", lambda one: one.cpu),
    Figure("API server's CPU a pod", "ms", lambda one: one.server_cpu),
)


def measures_of(
    load: Load, turns: dict[str, list[Turn]], peer: str, figures: Iterable[Figure]
) -> Iterator[Measure]:
    for figure in figures:
        mine, theirs = ([figure.value(turn) for turn in turns[who]] for who in (OURS, peer))
        ratios = [mine / theirs for mine, theirs in zip(mine, theirs, strict=True)]
        yield Measure(
            f"{load}: {figure.name}",
            figure.unit,
            statistics.median(mine),
            peer,
            statistics.median(theirs),
            figure.target if peer in (THEIRS, NULL) else None,
            _WHY.get(figure.name, ""),
            report.median_interval(ratios),
        )


def _turns(load: Load, schedulers: dict[str, Command], rounds: int) -> dict[str, list[Turn]]:
    turns: dict[str, list[Turn]] = {who: [] for who in schedulers}
    for _ in range(rounds):
        for who, command in schedulers.items():
            turns[who].append(uvloop.run(turn(load, command, waits_for_events=who != NO_EVENTS)))
            print(f"{load}, {who}: {turns[who][-1]}", flush=True)
    return turns


def measure_peer(rounds: int) -> None:
    measures: list[Measure] = []
    for load in LOADS:
        turns = _turns(load, {OURS: ours, THEIRS: theirs}, rounds)
        measures += measures_of(load, turns, THEIRS, PEER_FIGURES)
    print(report.table(measures))
    report.write(measures, "scheduler_peer", {"rounds": rounds, "pods": _PODS_NOTE})


def measure_nulls(rounds: int) -> None:
    load, schedulers = LOADS[0], nulls()
    turns = _turns(load, {OURS: ours, **schedulers}, rounds)
    measures = [
        measure for who in schedulers for measure in measures_of(load, turns, who, NULL_FIGURES)
    ]
    print(report.table(measures))
    report.write(measures, "scheduler_null", {"rounds": rounds, "pods": _PODS_NOTE})


BOTH = {"peer": measure_peer, "null": measure_nulls}


def main(rounds: int = ROUNDS, only: str = "") -> None:
    if (reason := why_not()) is not None:
        print(f"scheduler_peer left out: {reason}")
        return
    for name, measure in BOTH.items():
        if only in ("", name):
            measure(rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.scheduler_peer")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", choices=list(BOTH), default="")
    options = parser.parse_args()
    main(options.rounds, options.only)
