"""PodMigrationJobs by a real API server, with the rights that deploy/ gives the descheduler.

The test is everybody else: the kubelet, the StatefulSet's controller, the scheduler and the
disruption controller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple

import anyio
import pytest
from koord_descheduler.io.cluster_follower import ClusterFollower
from koord_descheduler.migration.controller import MigrationController
from koord_descheduler.migration.core.soft_eviction import ANNOTATION_SOFT_EVICTION
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
    Resource,
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

    async def start(
        self, name: str, node: str, of: Object | None = None, *, ready: bool = True
    ) -> str:
        """A pod that serves, of ``db`` or of another owner; returns its UID."""
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": self.uid}
        if of is not None:
            owner = {key: of[key] for key in ("apiVersion", "kind")}
            owner |= {key: of["metadata"][key] for key in ("name", "uid")}
        metadata = {
            "name": name,
            "labels": LABELS,
            "ownerReferences": [owner | {"controller": True}],
        }
        pod = {"metadata": metadata, "spec": self._spec(node)}
        made = await self.client.create(PODS, pod, NAMESPACE)
        true = ("Ready", "PodScheduled") if ready else ("PodScheduled",)
        conditions = [{"type": kind, "status": "True"} for kind in true]
        status = {"status": {"phase": "Running", "conditions": conditions}}
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

    async def wait_for(self, name: str = "away", **fields: str) -> Object:
        """The job, once its status has these fields, or the beginnings of them."""

        async def has() -> Object | None:
            found = await self.client.get(POD_MIGRATION_JOBS, name)
            status = found.get("status") or {}
            is_it = all(str(status.get(key, "")).startswith(v) for key, v in fields.items())
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


class ScaledKind(NamedTuple):
    """A kind of OpenKruise, of which Kubernetes sees no more than its scale."""

    kind: str
    plural: str
    version: str

    @property
    def resource(self) -> Resource:
        return Resource(KRUISE, self.version, self.plural, self.kind, namespaced=True)

    def definition(self) -> Object:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        scale = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.labelSelector",
        }
        version = {
            "name": self.version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": scale},
        }
        names = {"kind": self.kind, "plural": self.plural, "singular": self.kind.lower()}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{KRUISE}"},
            "spec": {"group": KRUISE, "scope": "Namespaced", "names": names, "versions": [version]},
        }


KRUISE = "apps.kruise.io"
KINDS = (
    ScaledKind("CloneSet", "clonesets", "v1alpha1"),
    ScaledKind("StatefulSet", "statefulsets", "v1beta1"),
)


async def test_limits_of_workloads_of_openkruise(cluster: RealCluster, owners: Owners) -> None:
    """Replicas are those of the real scale; a job that is deleted takes its notice back."""
    for scaled in KINDS:
        cluster.apply(scaled.definition())
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
    await owners.allow(9)
    warned: list[str] = []
    config = cluster.server.kubeconfig("mover", cluster.token("koord-descheduler"))
    async with (
        await connect(str(config), Limits(qps=0)) as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(migrations, client, warned)
        for scaled in KINDS:
            await _check_limits(owners, scaled)
        group.cancel_scope.cancel()
    assert not about_jobs(warned)


async def _check_limits(owners: Owners, scaled: ScaledKind) -> None:
    """Of four replicas two may be away, where one is not ready; an only one never moves."""
    client, word = owners.client, scaled.kind.lower()
    only, four = f"{word}-only", f"{word}-four"
    await owners.start(f"{only}-0", "a", await _create(client, scaled, only, 1))
    made = await _create(client, scaled, four, 4)
    pods = [f"{four}-{place}" for place in range(4)]
    for pod in pods:
        await owners.start(pod, "a", made, ready=pod != pods[0])
    await _move(client, f"{only}-0")
    refused = await owners.wait_for(f"{only}-0", phase="Failed", reason="ForbiddenMigratePod")
    assert f"{scaled.kind} {NAMESPACE}/{only} has one replica" in refused["status"]["message"]
    await _move(client, pods[1])
    await owners.wait_for(pods[1], status="Eviction")
    await _move(client, pods[2])
    away = f"2 pods of {scaled.kind} {NAMESPACE}/{four} are away, maxUnavailablePerWorkload is 2"
    await owners.wait_for(pods[2], phase="Pending", message=away)
    await until(lambda: _has_notice(client, pods[1]), "the owner is asked to end it")
    await client.delete(POD_MIGRATION_JOBS, pods[1])
    await until(lambda: _has_no_notice(client, pods[1]), "nobody is asked any more")
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    for pod in (f"{only}-0", *pods):
        await client.write(Request("DELETE", PODS, pod, NAMESPACE, body=body))


async def _create(client: Client, scaled: ScaledKind, name: str, replicas: int) -> Object:
    version = f"{KRUISE}/{scaled.version}"
    document: Object = {"apiVersion": version, "kind": scaled.kind, "metadata": {"name": name}}
    document["spec"] = {"replicas": replicas}
    return await client.create(scaled.resource, document, NAMESPACE)


async def _move(client: Client, pod: str) -> None:
    """A job that asks the owner of a pod to end it, in no hurry."""
    spec = {"podRef": {"namespace": NAMESPACE, "name": pod}, "mode": "EvictDirectly"}
    labels = {"koordinator.sh/evict-policy": "SoftEviction"}
    metadata = {"name": pod, "labels": labels}
    await client.create(POD_MIGRATION_JOBS, {**JOB, "metadata": metadata, "spec": spec})


async def _has_notice(client: Client, pod: str) -> bool:
    annotations = (await client.get(PODS, pod, NAMESPACE))["metadata"].get("annotations") or {}
    return ANNOTATION_SOFT_EVICTION in annotations


async def _has_no_notice(client: Client, pod: str) -> bool:
    return not await _has_notice(client, pod)
