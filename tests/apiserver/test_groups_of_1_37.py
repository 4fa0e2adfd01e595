"""Kubernetes 1.37's groups by a real API server of 1.36: definitions stand in for v1beta1.

It serves custom resources in a group of its own only while it serves nothing of its own there.
PriorityClasses are of that group, so a definition stands in for them, too.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from koord_kube.protocol.resources import COMPOSITE_GROUPS, SCHEDULING_GROUPS, Resource

from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.real_cluster import RealCluster
from tests.apiserver.scheduler_cluster import NAMESPACE, ScheduledCluster, admin_client
from tests.support.kube_apiserver import KubeApiserver
from tests.support.network import OwnNetwork
from tests.support.scheduler_program import SchedulerProgram
from tests.support.waiting import until

GROUPS = SCHEDULING_GROUPS[0]
FLAGS = {
    "feature-gates": "GenericWorkload=true",  # keeps spec.schedulingGroup of pods
    "runtime-config": "scheduling.k8s.io/v1=false,scheduling.k8s.io/v1alpha2=false",
    "disable-admission-plugins": "Priority,PodGroupWorkloadExists",
}
PLUGINS = [{"name": "GangScheduling"}, {"name": "TopologyPlacementGenerator"}]
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": PLUGINS}}}],
}
APPROVED = {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/5547"}


def definition(kind: str, plural: str, *versions: str, scope: str = "Namespaced") -> dict[str, Any]:
    """A CustomResourceDefinition in Kubernetes' own group, of objects with any fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = [
        {
            "name": one,
            "served": True,
            "storage": one == versions[0],
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema},
        }
        for one in versions
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUPS.group}", "annotations": APPROVED},
        "spec": {
            "group": GROUPS.group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural},
            "versions": served,
        },
    }


@pytest.fixture(scope="module")
def server() -> Iterator[KubeApiserver]:
    """One whose PriorityClasses cannot be listed before they are defined."""
    ready = "/readyz?exclude=informer-sync"
    with (
        tempfile.TemporaryDirectory(prefix="pykoord-k8s-") as name,
        OwnNetwork() as own,
        KubeApiserver(Path(name), own, flags=FLAGS, ready=ready) as serving,
    ):
        RealCluster(serving).apply(
            definition("PriorityClass", "priorityclasses", "v1", scope="Cluster"),
            definition("PodGroup", "podgroups", "v1beta1", "v1alpha3"),
            definition("CompositePodGroup", "compositepodgroups", "v1alpha3"),
        )
        yield serving


@pytest.fixture
def scheduler(cluster: RealCluster) -> Iterator[SchedulerProgram]:
    gates = "--feature-gates=CompositePodGroup=true"
    with deployed_scheduler(cluster, json.dumps(CONFIG), gates) as made:
        yield made


@pytest.fixture
async def groups(server: KubeApiserver, scheduler: SchedulerProgram) -> AsyncIterator[Groups]:
    RealCluster(server).namespace(NAMESPACE)
    await asyncio.to_thread(scheduler.start)
    async with await admin_client(server) as client:
        await until(lambda: scheduler.ready and scheduler.leads, "a leader")
        made = Groups(server, client)
        yield made
        await made.clean()


class Groups(ScheduledCluster):
    """With groups of pods."""

    async def group(self, kind: Resource, name: str, policy: object, **spec: Any) -> None:
        """One with a gang policy."""
        head = {"apiVersion": f"{kind.group}/{kind.version}", "kind": kind.kind}
        names = {"metadata": {"name": name, "namespace": NAMESPACE}}
        spec = {"schedulingPolicy": {"gang": policy}, **spec}
        await self.client.create(kind, {**head, **names, "spec": spec}, NAMESPACE)

    async def conditions(self, name: str) -> list[tuple[str, str, str]]:
        """Type, status and reason of those of a PodGroup."""
        found = await self.client.get(GROUPS, name, NAMESPACE)
        given = found.get("status", {}).get("conditions", ())
        return [(one["type"], one["status"], one["reason"]) for one in given]

    async def wait_reported(self, name: str, *wanted: str) -> None:
        async def has() -> bool:
            return await self.conditions(name) == [("PodGroupInitiallyScheduled", *wanted)]

        await until(has, f"the condition of {name}: {wanted}")


async def test_a_group_of_v1beta1_starts_whole_and_its_status_says_so(groups: Groups) -> None:
    await groups.nodes("n1")
    await groups.group(GROUPS, "g", {"minCount": 6}, disruptionMode={"all": {}})
    await groups.pods("g", 6, 1000, schedulingGroup={"podGroupName": "g"})
    await groups.wait_reported("g", "False", "Unschedulable")
    assert await groups.bound() == {}, "six pods, four cores"
    await groups.nodes("n2")
    await groups.wait_bound(6)
    await groups.wait_reported("g", "True", "Scheduled")


async def test_groups_of_a_composite_start_together(groups: Groups) -> None:
    await groups.nodes("n1")
    await groups.group(COMPOSITE_GROUPS, "all", {"minGroupCount": 2})
    for name, number in (("leader", 1), ("workers", 5)):
        more = {"parentCompositePodGroupName": "all"}
        await groups.group(GROUPS, name, {"minCount": number}, **more)
        await groups.pods(name, number, 1000, schedulingGroup={"podGroupName": name})
    for name in ("leader", "workers"):
        await groups.wait_reported(name, "False", "Unschedulable")
    assert await groups.bound() == {}, "six pods, four cores"
    await groups.nodes("n2")
    await groups.wait_bound(6)
    for name in ("leader", "workers"):
        await groups.wait_reported(name, "True", "Scheduled")
