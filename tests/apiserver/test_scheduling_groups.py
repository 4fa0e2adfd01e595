"""Kubernetes' groups of pods by a real API server that has them: v1alpha2."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from koord_kube.protocol.resources import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SCHEDULING_GROUPS,
)

from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.real_cluster import RealCluster
from tests.apiserver.scheduler_cluster import NAMESPACE, ScheduledCluster, admin_client
from tests.support.kube_apiserver import KubeApiserver
from tests.support.network import OwnNetwork
from tests.support.scheduler_program import SchedulerProgram
from tests.support.waiting import until

GROUPS = SCHEDULING_GROUPS[-1]
FLAGS = {
    "feature-gates": "GenericWorkload=true,DRAWorkloadResourceClaims=true",
    "runtime-config": "scheduling.k8s.io/v1alpha2=true",
}
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}}],
}


@pytest.fixture(scope="module")
def server() -> Iterator[KubeApiserver]:
    """One that keeps ``spec.schedulingGroup``."""
    with (
        tempfile.TemporaryDirectory(prefix="pykoord-k8s-") as name,
        OwnNetwork() as own,
        KubeApiserver(Path(name), own, flags=FLAGS) as serving,
    ):
        yield serving


@pytest.fixture
def scheduler(cluster: RealCluster) -> Iterator[SchedulerProgram]:
    gates = "--feature-gates=DRAWorkloadResourceClaims=true"
    with deployed_scheduler(cluster, json.dumps(CONFIG), gates) as made:
        yield made


@pytest.fixture
async def groups(server: KubeApiserver) -> AsyncIterator[ScheduledCluster]:
    RealCluster(server).namespace(NAMESPACE)
    async with await admin_client(server) as client:
        made = ScheduledCluster(server, client)
        yield made
        await made.clean()


async def conditions(cluster: ScheduledCluster) -> list[tuple[str, str, str]]:
    """Type, status and reason of those of the group."""
    found = await cluster.client.get(GROUPS, "g", NAMESPACE)
    given = found.get("status", {}).get("conditions", ())
    return [(one["type"], one["status"], one["reason"]) for one in given]


async def test_a_group_starts_whole_and_its_status_says_so(
    groups: ScheduledCluster, scheduler: SchedulerProgram
) -> None:
    await groups.nodes("n1")
    await asyncio.to_thread(scheduler.start)
    await until(lambda: scheduler.ready, "ready")
    await until(lambda: scheduler.leads, "a leader")
    head = {"apiVersion": f"{GROUPS.group}/{GROUPS.version}", "kind": GROUPS.kind}
    names = {"metadata": {"name": "g", "namespace": NAMESPACE}}
    spec = {"schedulingPolicy": {"gang": {"minCount": 6}}, "disruptionMode": "PodGroup"}
    await groups.client.create(GROUPS, {**head, **names, "spec": spec}, NAMESPACE)
    await groups.pods("g", 6, 1000, schedulingGroup={"podGroupName": "g"})
    kind = "PodGroupScheduled"

    async def has(*wanted: str) -> bool:
        return await conditions(groups) == [(kind, *wanted)]

    await until(lambda: has("False", "Unschedulable"), "a refusal")
    assert await groups.bound() == {}, "six pods, four cores"
    await groups.nodes("n2")
    await groups.wait_bound(6)
    await until(lambda: has("True", "Scheduled"), "the condition of a group that has started")
    assert "podgroups (scheduling.k8s.io/v1beta1)" in scheduler.said


async def test_a_claim_of_a_group_is_reserved_for_it_once(
    groups: ScheduledCluster, scheduler: SchedulerProgram
) -> None:
    await groups.nodes("n1", "n2")
    await asyncio.to_thread(scheduler.start)
    await until(lambda: scheduler.ready and scheduler.leads, "a leader")
    client = groups.client
    head = {"apiVersion": "resource.k8s.io/v1"}
    await client.create(
        DEVICE_CLASSES, {**head, "kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}}
    )
    pool = {"name": "n2", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example", "nodeName": "n2", "pool": pool, "devices": [{"name": "x"}]}
    given = {**head, "kind": "ResourceSlice", "metadata": {"name": "n2"}, "spec": spec}
    await client.create(RESOURCE_SLICES, given)
    request = {"name": "r", "exactly": {"deviceClassName": "any"}}
    claim = {"metadata": {"name": "link", "namespace": NAMESPACE}, "kind": "ResourceClaim", **head}
    claim["spec"] = {"devices": {"requests": [request]}}
    await client.create(RESOURCE_CLAIMS, claim, NAMESPACE)
    head = {"apiVersion": f"{GROUPS.group}/{GROUPS.version}", "kind": GROUPS.kind}
    names = {"metadata": {"name": "c", "namespace": NAMESPACE}}
    shared = {"resourceClaims": [{"name": "link", "resourceClaimName": "link"}]}
    spec = {"schedulingPolicy": {"gang": {"minCount": 3}}, **shared}
    made = await client.create(GROUPS, {**head, **names, "spec": spec}, NAMESPACE)
    await groups.pods("c", 3, 1000, schedulingGroup={"podGroupName": "c"}, **shared)
    assert set((await groups.wait_bound(3)).values()) == {"n2"}, "where the device is"
    status = (await client.get(RESOURCE_CLAIMS, "link", NAMESPACE))["status"]
    assert [one["uid"] for one in status["reservedFor"]] == [made["metadata"]["uid"]]
    assert len(status["allocation"]["devices"]["results"]) == 1
