"""Pods, nodes and workloads that come and go, while programs are killed and the server pauses."""

from __future__ import annotations

import sys
import time
from functools import partial
from random import Random

import anyio
from koord_kube.protocol.resources import LEASES, NODES, PODS

from tests.apiserver.scheduler_cluster import NAMESPACE, TAINT, for_all
from tests.apiserver.scheduling_history import SchedulingHistory
from tests.chaos_scheduler import audit
from tests.chaos_scheduler.cluster_state import node_of
from tests.chaos_scheduler.faults import Faults
from tests.chaos_scheduler.nodes import ROOM, ChaosNodes
from tests.chaos_scheduler.population import Population, cluster_state
from tests.chaos_scheduler.replicas import Replicas, wait
from tests.chaos_scheduler.report import ChurnReport
from tests.chaos_scheduler.takeovers import Takeovers
from tests.chaos_scheduler.waiting_pods import forgotten
from tests.chaos_scheduler.workloads import PRIORITY_CLASS
from tests.support.following import follow
from tests.support.processes import PATIENCE
from tests.support.scheduler_program import SchedulerProgram
from tests.support.unreliable_writer import LOST_LINE
from tests.support.waiting import until

SIZES = (250, 500, 1000)
REPAIRED_LINE = "columns of a node were wrong, a defect; they are repaired"
TOO_LARGE = 9000
GIANT, GIANTS = "giant", 5
"""Pods too large for any node."""
MOST_LATE = 30.0
"""Seconds for which a node may be closed before a binding: decisions are made of what was seen up
to so long ago, and bindings wait for a slow API server without another look at the node."""
AUDIT_SECONDS = 5.0


class Churn:
    """One run of it."""

    def __init__(self, cluster: ChaosNodes, schedulers: list[SchedulerProgram], seed: int) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._replicas = Replicas(schedulers)
        self._rng = Random(seed)
        self.history = SchedulingHistory(ROOM)
        self.report = ChurnReport()
        self._population = Population(cluster, self.report.features, Random(seed))
        bound = self.history.bound_pods
        self._faults = Faults(cluster, self._replicas, self.report, bound, Random(seed))
        self._number = 0
        self._is_created = False
        self._began = time.monotonic()

    async def run(
        self, nodes: int, pods: int, seconds: float, kills: int, pauses: int
    ) -> ChurnReport:
        """Fill ``nodes`` with ``pods``, go on for some seconds with ``kills`` and ``pauses``."""
        async with anyio.create_task_group() as group:
            follow_all = partial(group.start_soon, follow, self._client)
            follow_all(PODS, NAMESPACE, self.history.pod_event)
            follow_all(NODES, "", self.history.node_event)
            follow_all(LEASES, "kube-system", Takeovers(self.report).event)
            names = [f"n{one}" for one in range(nodes)]
            await self._cluster.hardware(*names)
            await self._cluster.nodes(*names)
            await self._replicas.start()
            self._log(f"{nodes} nodes, and a leader")
            group.start_soon(self._audit_now_and_then)
            async with anyio.create_task_group() as actions:
                actions.start_soon(self._create, pods)
                actions.start_soon(self._change_workloads, nodes, seconds)
                actions.start_soon(self._replace_pods, seconds)
                actions.start_soon(self._change_nodes, nodes, seconds)
                actions.start_soon(self._faults.strike, seconds, kills, pauses)
            self._log(f"{self.history.bindings} bindings, {self.report.kills} kills")
            await self._finish()
            group.cancel_scope.cancel()
        self._judge()
        self.report.seconds = time.monotonic() - self._began
        return self.report

    # ---- what happens

    async def _create(self, number: int) -> None:
        for size in SIZES:
            await self._create_some(number // len(SIZES), size)
        self._is_created = True

    async def _create_some(self, number: int, size: int) -> None:
        self._number += 1
        await self._plain(f"p{self._number}", number, size)

    async def _plain(self, prefix: str, number: int, size: int) -> None:
        await self._cluster.pods(prefix, number, size, priorityClassName=PRIORITY_CLASS)

    async def _change_workloads(self, nodes: int, seconds: float) -> None:
        await self._population.begin(max(2, nodes // 25))
        await self._population.change(seconds)

    def _goes_on(self, end: float) -> bool:
        return time.monotonic() < end or not self._is_created

    async def _replace_pods(self, seconds: float) -> None:
        """Pods end, and others come."""
        end = time.monotonic() + seconds
        gone: set[str] = set()
        while self._goes_on(end):
            # The history may be behind, and still have pods that are gone.
            there = [one for one in self.history.bound_pods() if one.startswith("p")]
            bound = [one for one in there if one not in gone]
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

    async def _finish(self) -> None:
        """Room for all that has to have a node, and nothing happens any more."""
        await self._population.make_room()
        await self._cluster.open_nodes()
        await self._plain(GIANT, GIANTS, TOO_LARGE)
        await until(self._none_forgotten, "a node for each pod that fits", seconds=600)
        self._log("each pod that fits has a node")
        await self._faults.hand_over()
        await self._settle()
        await self._audit_at_rest()

    # ---- what is found

    async def _none_forgotten(self) -> bool:
        self.report.forgotten = [
            one for one in forgotten(await cluster_state(self._cluster)) if GIANT not in one
        ]
        return not self.report.forgotten

    async def _audit_now_and_then(self) -> None:
        while True:
            await anyio.sleep(AUDIT_SECONDS)
            self._wrong(audit.always(await cluster_state(self._cluster)))

    async def _audit_at_rest(self) -> None:
        """What is written of pods afterwards has some time."""
        deadline = time.monotonic() + PATIENCE
        while True:
            state = await cluster_state(self._cluster)
            found = audit.at_rest(state)
            if not found or time.monotonic() > deadline:
                break
            await anyio.sleep(1.0)
        self._wrong(found)
        self._population.count(state)
        self.report.waiting = sum(not node_of(one) for one in state.pods)

    def _wrong(self, found: list[str]) -> None:
        self.report.audits += 1
        for one in found:
            if one not in self.report.violations:
                self._log(one)
                self.report.violations.append(one)

    async def _settle(self) -> None:
        """Wait until both know of the cluster what the API says, and assume nothing."""
        state = await cluster_state(self._cluster)
        bound = sum(bool(node_of(one)) for one in state.pods)
        expected = {"nodes": len(state.nodes), "pods": bound, "assumed_pods": 0}

        def is_settled(one: SchedulerProgram) -> bool:
            status = self.report.status[one.name] = one.page("/v1/status")
            return bool(status["cached"] == expected and not status["unsent_bindings"])

        for one in self._replicas.all:
            await wait(partial(is_settled, one), f"{one.name} has {expected}")

    def _judge(self) -> None:
        report, history = self.report, self.history
        report.bindings = history.bindings
        report.late_bindings = history.late_bindings()
        report.violations += history.violations + [
            f"a pod was bound to a node closed for {one:.1f} s"
            for one in report.late_bindings
            if one > MOST_LATE
        ]
        for one in self._replicas.all:
            report.lost_bindings += len(one.events(LOST_LINE))
            if "Traceback" in one.said or one.events(REPAIRED_LINE):
                report.violations.append(f"{one.name} has found a defect in itself")

    def _log(self, what: str) -> None:
        sys.stderr.write(f"{time.monotonic() - self._began:5.0f} s: {what}\n")
