"""Replicas are read from scales; of what has none the reason is kept."""

from __future__ import annotations

import pytest
from koord_descheduler.migration.workload_reader import WorkloadReader
from koord_descheduler.objects.observed_pod import WorkloadName
from koord_descheduler.planner.workloads import Replicas, Workloads
from koord_kube.client import Client, Cluster, Limits
from koord_kube.protocol.resources import REPLICA_SETS, STATEFUL_SETS, Resource

from tests.support.kube_api import USUAL, KubeApi

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
JOBS = Resource("batch", "v1", "jobs", "Job", namespaced=True)


def named(kind: str, version: str = "apps/v1") -> WorkloadName:
    return WorkloadName(version, kind, "default", "w")


async def read(*workloads: WorkloadName, **fault: int) -> list[Replicas]:
    known, replicas = Workloads(fresh=0.0), {"spec": {"replicas": 3}, "metadata": {"name": "w"}}
    async with (
        KubeApi(installed=USUAL | {DEPLOYMENTS, JOBS}) as api,
        Client(Cluster(api.url), Limits(qps=0)) as client,
    ):
        for resource in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS):
            api.put(resource, replicas, "default")
        api.put(JOBS, {"metadata": {"name": "w"}, "spec": {"parallelism": 5}}, "default")
        api.put(JOBS, {"metadata": {"name": "one-by-one"}, "spec": {}}, "default")
        reader = WorkloadReader(client, known)
        for workload in workloads:
            known.replicas(workload)
        if fault:
            await reader.read_due()
            for workload in workloads:
                known.replicas(workload)
            api.fail(times=9, **fault)
        await reader.read_due()
    return [known.replicas(workload) for workload in workloads]


async def test_replicas_of_kinds() -> None:
    kinds = named("Deployment"), named("ReplicaSet"), named("StatefulSet"), named("Job", "batch/v1")
    assert [found.desired for found in await read(*kinds)] == [3, 3, 3, 5]
    without = WorkloadName("batch/v1", "Job", "default", "one-by-one")
    assert [found.desired for found in await read(without)] == [1]


@pytest.mark.parametrize(
    ("workload", "plural"),
    [
        (named("Policy", "a.io/v1"), "policies"),
        (named("Class", "a.io/v1"), "classes"),
        (WorkloadName("apps/v1", "ReplicaSet", "default", "other"), "replicasets"),
    ],
)
async def test_a_kind_without_scale_says_so(workload: WorkloadName, plural: str) -> None:
    (found,) = await read(workload)
    assert found == Replicas(problem=f"{plural} have no scale")


@pytest.mark.parametrize(("status", "desired"), [(500, 3), (429, 3), (403, None)])
async def test_an_outage_changes_nothing(status: int, desired: int | None) -> None:
    (found,) = await read(named("Deployment"), status=status)
    assert found.desired == desired
    assert bool(found.problem) is (desired is None)
