"""A double of the API server, the migration controller, and what the test plays beside them.

``reserve`` is the scheduler, ``end_pod`` the kubelet, ``start_pod`` a ReplicaSet's controller.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from koord_descheduler.io.cluster_follower import ClusterFollower
from koord_descheduler.migration.controller import MigrationController
from koord_descheduler.objects.observed_pod import WorkloadName
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.planner.workloads import Replicas
from koord_descheduler.plugins.migration_controller.args import MigrationControllerArgs
from koord_descheduler.plugins.migration_controller.plugin import MigrationControllerPlugin
from koord_kube.answers import TaskSubmitter
from koord_kube.background_writer import BackgroundWriter
from koord_kube.client import Client
from koord_kube.core.events import EventSource
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.resources import (
    DISRUPTION_BUDGETS,
    EVENTS,
    NODES,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
)
from koord_model.times import rfc3339
from koord_scheduler.arguments.problems import convert
from koord_scheduler.config.scheduler_config import default_scheduler_config

from tests.descheduler.clusters import node, pod
from tests.descheduler.migration.jobs import job_document, reservation_status
from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE

PACE = ReflectorTiming(first=0.004, cap=0.02)
Document = dict[str, Any]


@dataclass
class MigrationBench:
    api: KubeApi
    client: Client
    group: asyncio.TaskGroup
    replicas: int = 4
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    controller: MigrationController = field(init=False)
    cluster: ClusterModel = field(init=False)
    plugin: MigrationControllerPlugin = field(init=False)
    offset: float = 0.0

    def __post_init__(self) -> None:
        self.api.time = rfc3339(time.time())
        for name in ("a", "b"):
            self.api.put(NODES, node(name))

    def wall(self) -> float:
        return time.time() + self.offset

    async def start(
        self, *, created_by: str = "koord-descheduler", **fields: Any
    ) -> MigrationController:
        """A program that leads; again after ``stop``."""
        self.cluster = ClusterModel(default_scheduler_config())
        follower = ClusterFollower(self.client, self.cluster, lambda: None)
        self.run(follower.run())
        await follower.wait_synced()
        given = {"arbitrationArgs": {"interval": "10ms"}, "maxMigratingPerNode": 0, **fields}
        self.plugin = MigrationControllerPlugin(convert(given, MigrationControllerArgs))
        writer = BackgroundWriter(TaskSubmitter(self.client.write).submit, self.client.backoff)
        recorder = EventRecorder(writer, EventSource("koord-descheduler", "d"))
        self.run(recorder.run())
        self.know(Replicas(self.replicas))
        self.controller = MigrationController(
            self.client,
            self.client.write,
            self.cluster,
            self.plugin,
            recorder,
            created_by=created_by,
            on_warning=self.warned.append,
            wall=self.wall,
            pace=PACE,
        )
        self.run(self.controller.run())
        return self.controller

    def know(self, replicas: Replicas, owner: str = "app") -> None:
        name = WorkloadName("apps/v1", "ReplicaSet", "default", owner)
        self.cluster.workloads.learn(name, replicas, 0.0)

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        self.tasks.append(self.group.create_task(work))

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()

    # ---- what users do

    def put_job(self, name: str = "j", pod: str = "p", *, ago: float = 0.0, **fields: Any) -> None:
        ref = fields.pop("ref", {"namespace": "default", "name": pod, "uid": f"uid-{pod}"})
        document = job_document(name, ref=ref, phase=fields.pop("phase", ""), **fields)
        self.api.time = rfc3339(self.wall() - ago)
        self.api.put(POD_MIGRATION_JOBS, document)

    def job(self, name: str = "j") -> Document:
        return self.api.get(POD_MIGRATION_JOBS, name)

    def status(self, name: str = "j") -> Document:
        found: Document = self.job(name).get("status") or {}
        return found

    # ---- what others do

    def put_budget(self, allowed: int) -> None:
        """A PodDisruptionBudget for the pods of "app", as its controller counts it."""
        budget = {
            "metadata": {"name": "pdb"},
            "spec": {"selector": {"matchLabels": {"app": "app"}}},
            "status": {"disruptionsAllowed": allowed, "observedGeneration": 1},
        }
        self.api.put(DISRUPTION_BUDGETS, budget, "default")

    def start_pod(self, name: str = "p", on: str = "a", **fields: Any) -> None:
        spec = {"terminationGracePeriodSeconds": 0}
        self.api.put(PODS, pod(name, on, **{"spec": spec, **fields}), "default")

    def end_pod(self, name: str = "p") -> None:
        self.api.delete(PODS, name, "default")

    def reservation(self, name: str = "uid-j") -> Document | None:
        try:
            return self.api.get(RESERVATIONS, name)
        except KeyError:
            return None

    def has_pod(self, name: str) -> bool:
        try:
            self.api.get(PODS, name, "default")
        except KeyError:
            return False
        return True

    async def reserve(self, name: str = "uid-j", **status: Any) -> None:
        await self.until(lambda: self.reservation(name) is not None)
        given = status or {"phase": "Available", "node": "b"}
        found = self.api.get(RESERVATIONS, name)
        self.api.put(RESERVATIONS, found | {"status": reservation_status(**given)})

    async def replace(self, old: str = "p", new: str = "q", reservation: str = "uid-j") -> None:
        """The pod is gone; another one takes the Reservation."""
        await self.until(lambda: not self.has_pod(old))
        self.start_pod(new, "b")
        owner = {"namespace": "default", "name": new, "uid": f"uid-{new}"}
        await self.reserve(reservation, phase="Succeeded", node="b", taken_by=[owner])

    # ---- what became of it

    def evictions(self) -> list[str]:
        return [one.path for one in self.api.asked if one.path.endswith("/eviction")]

    def events(self) -> list[str]:
        found = [one for key, one in self.api.objects.items() if key.resource == EVENTS]
        return [f"{one['involvedObject']['kind']} {one['reason']}" for one in found]

    async def until_phase(self, phase: str, name: str = "j") -> Document:
        await self.until(lambda: self.status(name).get("phase") == phase)
        return self.status(name)

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not true():
                await asyncio.sleep(0.002)

    async def rest(self) -> None:
        """Until nothing happens any more."""
        quiet, last = 0, -1
        async with asyncio.timeout(PATIENCE):
            while quiet < 10:
                await asyncio.sleep(0.01)
                now = len(self.api.asked)
                quiet = quiet + 1 if now == last else 0
                last = now
