"""PodMigrationJobs by a real API server, with the rights that deploy/ gives the descheduler.

The test is everybody else: the kubelet, the StatefulSet's controller, the scheduler and the
disruption controller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anyio
import pytest
from koord_descheduler.io.cluster_follower import ClusterFollower
from koord_descheduler.migration.controller import MigrationController
from koord_descheduler.migration.workload_reader import WorkloadReader
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.plugins.migration_controller.args import MigrationControllerArgs
from koord_descheduler.plugins.migration_controller.plugin import MigrationControllerPlugin
from koord_kube.answers import TaskSubmitter
from koord_kube.background_writer import BackgroundWriter
from koord_kube.client import Client, Limits
from koord_kube.connect import connect
from koord_kube.core.events import EventSource
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.api import NotFoundError, Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import (
    DISRUPTION_BUDGETS,
    EVENTS,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
    STATEFUL_SETS,
)
from koord_scheduler.config.scheduler_config import default_scheduler_config

from tests.apiserver.real_cluster import RealCluster
from tests.apiserver.scheduler_cluster import admin_client
from tests.descheduler.migration.jobs import reservation_status
from tests.support.listing import listed
from tests.support.waiting import until

NAMESPACE = "moving"
LABELS = {"app": "db"}
JOB: Object = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "PodMigrationJob",
    "metadata": {"name": "away"},
    "spec": {"podRef": {"namespace": NAMESPACE, "name": "db-0"}, "ttl": "2m"},
}


class Owners:
    """A StatefulSet of two, and those who make and end its pods."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.uid = ""

    async def clean(self) -> None:
        """As it was before."""
        for resource, name in (
            (STATEFUL_SETS, "db"),
            (DISRUPTION_BUDGETS, "db"),
            (PODS, "db-0"),
            (PODS, "db-1"),
        ):
            body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
            with suppress(NotFoundError):
                await self.client.write(Request("DELETE", resource, name, NAMESPACE, body=body))
        for resource in (POD_MIGRATION_JOBS, RESERVATIONS):
            for found in (await listed(self.client, resource))[0]:
                await self.client.delete(resource, found["metadata"]["name"])

    async def create(self) -> None:
        template = {"metadata": {"labels": LABELS}, "spec": self._spec("")}
        spec = {
            "replicas": 2,
            "serviceName": "db",
            "selector": {"matchLabels": LABELS},
            "template": template,
        }
        made = await self.client.create(
            STATEFUL_SETS, {"metadata": {"name": "db"}, "spec": spec}, NAMESPACE
        )
        self.uid = made["metadata"]["uid"]
        for place, node in enumerate("ab"):
            await self.start(f"db-{place}", node)
        budget = {
            "metadata": {"name": "db"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}},
        }
        await self.client.create(DISRUPTION_BUDGETS, budget, NAMESPACE)

    async def start(self, name: str, node: str) -> str:
        """A pod that serves; returns its UID."""
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": self.uid}
        metadata = {
            "name": name,
            "labels": LABELS,
            "ownerReferences": [owner | {"controller": True}],
        }
        pod = {"metadata": metadata, "spec": self._spec(node)}
        made = await self.client.create(PODS, pod, NAMESPACE)
        ready = [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]
        status = {"status": {"phase": "Running", "conditions": ready}}
        await self.client.patch(PODS, name, status, NAMESPACE, "status")
        return str(made["metadata"]["uid"])

    def _spec(self, node: str) -> Object:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        spec: Object = {"containers": [container], "schedulerName": "koord-scheduler"}
        return spec | ({"nodeName": node} if node else {})

    async def allow(self, disruptions: int) -> None:
        status = {
            "observedGeneration": 1,
            "disruptionsAllowed": disruptions,
            "currentHealthy": 2,
            "desiredHealthy": 1,
            "expectedPods": 2,
        }
        await self.client.patch(DISRUPTION_BUDGETS, "db", {"status": status}, NAMESPACE, "status")

    async def end(self, name: str) -> None:
        """Once the pod is to end, and not before."""

        async def is_ending() -> bool:
            found = await self.client.get(PODS, name, NAMESPACE)
            return "deletionTimestamp" in found["metadata"]

        await until(is_ending, "the pod is evicted")
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        await self.client.write(Request("DELETE", PODS, name, NAMESPACE, body=body))

    async def reserve(self, name: str, **status: Any) -> None:
        """The scheduler's part."""

        async def exists() -> bool:
            try:
                await self.client.get(RESERVATIONS, name)
            except NotFoundError:
                return False
            return True

        await until(exists, "the Reservation is made")
        change = {"status": reservation_status(**status)}
        await self.client.patch(RESERVATIONS, name, change, subresource="status")

    async def job(self) -> Object:
        return await self.client.get(POD_MIGRATION_JOBS, "away")

    async def wait_for(self, **fields: str) -> Object:
        """The job, once its status has these fields, or the beginnings of them."""

        async def has() -> Object | None:
            found = await self.job()
            status = found.get("status") or {}
            is_it = all(str(status.get(name, "")).startswith(v) for name, v in fields.items())
            return found if is_it else None

        found = await until(has, f"the job has {fields}")
        assert found is not None
        return found


async def migrations(client: Client, warned: list[str]) -> None:
    """A descheduler that leads, but for its rounds."""
    cluster = ClusterModel(default_scheduler_config())
    follower = ClusterFollower(client, cluster, lambda: None, on_warning=warned.append)
    submitter = TaskSubmitter(client.write)
    writer = BackgroundWriter(submitter.submit, client.backoff, on_warning=warned.append)
    recorder = EventRecorder(writer, EventSource("koord-descheduler", "d"))
    plugin = MigrationControllerPlugin(MigrationControllerArgs(max_migrating_per_node=0))
    controller = MigrationController(
        client,
        client.write,
        cluster,
        plugin,
        recorder,
        created_by="koord-descheduler",
        on_warning=warned.append,
    )
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(follower.run)
            await follower.wait_synced()
            group.start_soon(recorder.run)
            group.start_soon(WorkloadReader(client, cluster.workloads).run)
            group.start_soon(controller.run)
    finally:
        with anyio.CancelScope(shield=True):
            await submitter.close()


def about_jobs(warned: list[str]) -> list[str]:
    """A server that has just begun warns of other kinds."""
    return [line for line in warned if "migration" in line or "forbidden" in line]


@pytest.fixture
async def owners(cluster: RealCluster) -> AsyncIterator[Owners]:
    cluster.namespace(NAMESPACE)
    for name in ("a", "b", "c"):
        cluster.ready_node(name, {"cpu": "8", "memory": "16Gi", "pods": "110"})
    async with await admin_client(cluster.server) as client:
        made = Owners(client)
        await made.create()
        yield made
        await made.clean()


async def test_a_stateful_set_of_two_moves_one_of_its_pods(
    cluster: RealCluster, owners: Owners
) -> None:
    """A budget is waited for, twice, and the descheduler is killed in between."""
    warned: list[str] = []
    config = cluster.server.kubeconfig("mover", cluster.token("koord-descheduler"))
    async with await connect(str(config), Limits(qps=0)) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(migrations, client, warned)
            await owners.client.create(POD_MIGRATION_JOBS, JOB)
            await owners.wait_for(phase="Pending", message="PodDisruptionBudget db")
            await owners.allow(1)
            begun = await owners.wait_for(phase="Running")
            group.cancel_scope.cancel()
        name = begun["metadata"]["uid"]
        async with anyio.create_task_group() as group:
            group.start_soon(migrations, client, warned)
            await owners.reserve(name, phase="Pending", why="no node yet")
            await owners.wait_for(reason="Unschedulable")
            await owners.allow(0)
            await owners.reserve(name, phase="Available", node="c")
            await owners.wait_for(status="Eviction", message="pods")
            await owners.allow(1)
            await owners.end("db-0")
            uid = await owners.start("db-0", "c")
            taken_by = [{"namespace": NAMESPACE, "name": "db-0", "uid": uid}]
            await owners.reserve(name, phase="Succeeded", node="c", taken_by=taken_by)
            job = await owners.wait_for(phase="Succeeded")
            group.cancel_scope.cancel()
    assert job["status"]["podRef"]["uid"] == uid
    assert job["spec"]["podRef"]["uid"] != uid
    events, _ = await listed(owners.client, EVENTS, NAMESPACE)
    assert [one["involvedObject"]["name"] for one in events] == ["db-0"]
    assert [one["reason"] for one in events] == ["Descheduled"]
    assert (await owners.client.get(PODS, "db-0", NAMESPACE))["metadata"]["uid"] == uid
    assert not about_jobs(warned)


async def test_a_deleted_job_takes_its_reservation_along(
    cluster: RealCluster, owners: Owners
) -> None:
    warned: list[str] = []
    config = cluster.server.kubeconfig("mover", cluster.token("koord-descheduler"))

    async def is_free() -> bool:
        found, _ = await listed(owners.client, RESERVATIONS)
        return not found

    async with (
        await connect(str(config), Limits(qps=0)) as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(migrations, client, warned)
        await owners.allow(1)
        made = await owners.client.create(POD_MIGRATION_JOBS, JOB)
        await owners.reserve(made["metadata"]["uid"], phase="Pending")
        await owners.client.delete(POD_MIGRATION_JOBS, "away")
        await until(is_free, "the Reservation is gone")
        group.cancel_scope.cancel()
    assert not about_jobs(warned)
