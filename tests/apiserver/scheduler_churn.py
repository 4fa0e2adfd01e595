"""Two schedulers at a real API server while pods and nodes come and go and leaders are killed.

``make chaos-scheduler`` runs it at size; afterwards all is recomputed from the API.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import anyio
import msgspec
from koord_kube.client import Client
from koord_kube.protocol.api import ApiError
from koord_kube.protocol.resources import LEASES, NODES, PODS, Resource

from tests.apiserver.real_cluster import RealCluster
from tests.apiserver.scheduler_cluster import (
    NAMESPACE,
    TAINT,
    ScheduledCluster,
    admin_client,
    for_all,
)
from tests.apiserver.scheduling_history import Pod, SchedulingHistory, forgotten_pods
from tests.support.kube_apiserver import ADMIN, KubeApiserver, why_not
from tests.support.listing import listed
from tests.support.network import OwnNetwork
from tests.support.processes import PATIENCE
from tests.support.scheduler_program import QUICK, SchedulerProgram
from tests.support.unreliable_writer import LOST_LINE
from tests.support.waiting import until

T = TypeVar("T")

ROOM = (4000, 110)
LEASE_SECONDS = 5
SIZES = (250, 500, 1000)
REPAIRED_LINE = "columns of a node were wrong, a defect; they are repaired"
TOO_LARGE = 8000
GIANTS = 5
"""Pods too large for any node."""
MOST_LATE = 30.0
"""Seconds for which a node may be closed before a binding: decisions are made of what was seen up
to so long ago, and bindings wait for a slow API server without another look at the node."""


@dataclass
class ChurnReport:
    """What is found afterwards; durations are in seconds."""

    bindings: int = 0
    lost_bindings: int = 0
    kills: int = 0
    ended_pods: int = 0
    changed_nodes: int = 0
    waiting: int = 0
    violations: list[str] = field(default_factory=list)
    late_bindings: list[float] = field(default_factory=list)
    after_expiry: list[float] = field(default_factory=list)
    """From the moment at which the Lease may be taken until another one holds it."""
    after_release: list[float] = field(default_factory=list)
    ready_again: list[float] = field(default_factory=list)
    """From the start of one that was killed until it knows the cluster."""
    status: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0


class Takeovers:
    """Times between holders of the Lease, as its watch says."""

    def __init__(self, report: ChurnReport) -> None:
        self._report = report
        self._holder, self._renewed = "", 0.0

    def event(self, kind: str, raw: bytes, now: float) -> None:
        lease = json.loads(raw)
        if lease["metadata"]["name"] != "kube-scheduler":
            return
        holder = lease["spec"].get("holderIdentity") or ""
        if holder and holder != self._holder:
            if self._holder:
                self._report.after_expiry.append(now - self._renewed - LEASE_SECONDS)
            elif self._renewed:
                self._report.after_release.append(now - self._renewed)
        self._holder, self._renewed = holder, now


async def follow(
    client: Client, resource: Resource, namespace: str, event: Callable[[str, bytes, float], None]
) -> None:
    """All events from now on, without a gap."""
    _, version = await listed(client, resource, namespace)
    while True:
        try:
            async for one in client.watch(resource, version, namespace):
                meta = (
                    msgspec.json.decode(one.raw, type=Pod).metadata
                    if one.type != "BOOKMARK"
                    else None
                )
                if meta is not None:
                    event(one.type, one.raw, time.monotonic())
                    version = meta.version
        except ApiError as error:
            if error.status == 410:
                raise
            await anyio.sleep(0.1)


class Churn:
    """One run of it."""

    def __init__(
        self, cluster: ScheduledCluster, schedulers: list[SchedulerProgram], seed: int
    ) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._schedulers = schedulers
        self._rng = Random(seed)
        self.history = SchedulingHistory(ROOM)
        self.report = ChurnReport()
        self._number = 0
        self._are_created = False
        self._began = time.monotonic()

    async def run(self, nodes: int, pods: int, seconds: float, kills: int) -> ChurnReport:
        """Fill ``nodes`` with ``pods``, go on for some seconds with ``kills`` of leaders."""
        async with anyio.create_task_group() as group:
            follow_all = partial(group.start_soon, follow, self._client)
            follow_all(PODS, NAMESPACE, self.history.pod_event)
            follow_all(NODES, "", self.history.node_event)
            follow_all(LEASES, "kube-system", Takeovers(self.report).event)
            await self._cluster.nodes(*(f"n{one}" for one in range(nodes)))
            for one in self._schedulers:
                await asyncio.to_thread(one.start)
            await self._leaders()
            self._log(f"{nodes} nodes, and a leader")
            async with anyio.create_task_group() as actions:
                actions.start_soon(self._create, pods)
                actions.start_soon(self._replace_pods, seconds)
                actions.start_soon(self._change_nodes, nodes, seconds)
                actions.start_soon(self._kill_leaders, seconds, kills)
            self._log(f"{self.history.bindings} bindings, {self.report.kills} kills")
            await self._cluster.pods("giant", GIANTS, TOO_LARGE)
            await until(self._none_forgotten, "a node for each pod that fits", seconds=600)
            self._log("each pod that fits has a node")
            await self._hand_over()
            await self._settle()
            group.cancel_scope.cancel()
        self._judge()
        self.report.seconds = time.monotonic() - self._began
        return self.report

    # ---- what happens

    async def _create(self, number: int) -> None:
        for size in SIZES:
            await self._create_some(number // len(SIZES), size)
        self._are_created = True

    async def _create_some(self, number: int, size: int) -> None:
        self._number += 1
        await self._cluster.pods(f"p{self._number}", number, size)

    def _goes_on(self, end: float) -> bool:
        return time.monotonic() < end or not self._are_created

    async def _replace_pods(self, seconds: float) -> None:
        """Pods end, and others come."""
        end = time.monotonic() + seconds
        gone: set[str] = set()
        while self._goes_on(end):
            # The history may be behind, and still have pods that are gone.
            bound = [one for one in self.history.bound_pods() if one not in gone]
            ended = self._rng.sample(bound, min(50, len(bound)))
            gone.update(ended)
            await for_all(self._cluster.end, ended)
            self.report.ended_pods += len(ended)
            await self._create_some(len(ended), self._rng.choice(SIZES))
            await anyio.sleep(1.0)

    async def _change_nodes(self, number: int, seconds: float) -> None:
        """Nodes go and come back, and get taints and lose them."""
        end = time.monotonic() + seconds
        while self._goes_on(end):
            gone, tainted = (f"n{one}" for one in self._rng.sample(range(number), 2))
            await self._client.delete(NODES, gone)
            await self._client.patch(NODES, tainted, {"spec": {"taints": [TAINT]}})
            self.report.changed_nodes += 2
            await anyio.sleep(self._rng.uniform(0.2, 1.0))
            await self._cluster.nodes(gone)
            if self._rng.random() < 0.8:
                await self._client.patch(NODES, tainted, {"spec": {"taints": None}})

    async def _kill_leaders(self, seconds: float, kills: int) -> None:
        for _ in range(kills):
            await anyio.sleep(seconds / kills)
            leader, other = await self._leader_and_other()
            leader.kill()
            self.report.kills += 1
            await _wait(lambda other=other: other.leads, "the other leads")  # type: ignore[misc]
            leader.start()
            began = time.monotonic()
            await _wait(partial(_is_ready, leader), "the killed one is ready again")
            self.report.ready_again.append(time.monotonic() - began)

    async def _hand_over(self) -> None:
        leader, other = await self._leader_and_other()
        await asyncio.to_thread(leader.stop)
        await _wait(lambda: other.leads, "the other leads")
        leader.start()
        await _wait(lambda: leader.ready, "the stopped one is back")

    async def _leader_and_other(self) -> tuple[SchedulerProgram, SchedulerProgram]:
        [leader] = await self._leaders()
        other = next(one for one in self._schedulers if one is not leader)
        await _wait(lambda: other.ready, "a standby")
        return leader, other

    async def _leaders(self) -> list[SchedulerProgram]:
        schedulers = self._schedulers
        return await _wait(
            lambda: [one for one in schedulers if one.ready and one.leads], "a leader"
        )

    def _log(self, what: str) -> None:
        sys.stderr.write(f"{time.monotonic() - self._began:5.0f} s: {what}\n")

    # ---- what is found

    async def _none_forgotten(self) -> bool:
        pods, nodes = await self._cluster.objects()
        self.report.waiting = sum(not one.spec.node for one in pods)
        return not forgotten_pods(pods, nodes)

    async def _settle(self) -> None:
        """Wait until both know of the cluster what the API says, and assume nothing."""
        pods, nodes = await self._cluster.objects()
        bound = sum(bool(one.spec.node) for one in pods)
        expected = {"nodes": len(nodes), "pods": bound, "assumed_pods": 0}

        def is_settled(one: SchedulerProgram) -> bool:
            status = self.report.status[one.name] = one.page("/v1/status")
            return bool(status["cached"] == expected and not status["unsent_bindings"])

        for one in self._schedulers:
            await _wait(partial(is_settled, one), f"{one.name} has {expected}")

    def _judge(self) -> None:
        report, history = self.report, self.history
        report.bindings = history.bindings
        report.late_bindings = history.late_bindings()
        report.violations = history.violations + [
            f"a pod was bound to a node closed for {one:.1f} s"
            for one in report.late_bindings
            if one > MOST_LATE
        ]
        for one in self._schedulers:
            report.lost_bindings += len(one.events(LOST_LINE))
            if "Traceback" in one.said or one.events(
                "columns of a node were wrong, a defect; they are repaired"
            ):
                report.violations.append(f"{one.name} has found a defect in itself")


def _is_ready(one: SchedulerProgram) -> bool:
    return one.ready


async def _wait(condition: Callable[[], T], what: str) -> T:
    """Ask a scheduler in a thread, so that all else is followed meanwhile."""
    return await until(lambda: asyncio.to_thread(condition), what, seconds=2 * PATIENCE)


def unreliable_schedulers(server: KubeApiserver) -> list[SchedulerProgram]:
    """Two that lose 1 % of their bindings."""
    kubeconfig = server.kubeconfig("scheduler", ADMIN)
    network = server.network
    return [
        SchedulerProgram(
            name,
            server.folder,
            kubeconfig,
            *QUICK,
            host=network.address,
            inside=network.inside([]),
            module="tests.support.unreliable_writer",
        )
        for name in ("s1", "s2")
    ]


async def _run(options: argparse.Namespace) -> ChurnReport:
    with (
        tempfile.TemporaryDirectory(prefix="pykoord-k8s-") as name,
        OwnNetwork() as own,
        KubeApiserver(Path(name), own) as server,
    ):
        RealCluster(server).namespace(NAMESPACE)
        schedulers = unreliable_schedulers(server)
        try:
            async with await admin_client(server) as client:
                churn = Churn(ScheduledCluster(server, client), schedulers, options.seed)
                size = options.nodes, options.pods, options.seconds, options.kills
                return await churn.run(*size)
        except BaseException:
            for one in schedulers:
                sys.stderr.write(f"---- {one.name}\n{one.said[-3000:]}\n")
            raise
        finally:
            for one in schedulers:
                one.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.apiserver.scheduler_churn", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=120.0, help="of changes, at least")
    parser.add_argument("--kills", type=int, default=4, help="of leaders")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if reason := why_not():
        parser.error(reason)
    report = asyncio.run(_run(options))
    print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    return 1 if report.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
