"""koord-scheduler beside a real API server: whatever happens, each pod has one node, with room."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import anyio
import pytest
from koord_kube import api_writer
from koord_kube.protocol.api import Object
from koord_scheduler.config.scheduler_config import default_scheduler_config
from koord_scheduler.program import program as module
from koord_scheduler.program.settings import SchedulerSettings

from tests.apiserver.real_cluster import RealCluster
from tests.apiserver.scheduler_cluster import (
    CORES,
    MILLICORES,
    NAMESPACE,
    ScheduledCluster,
    admin_client,
    for_all,
)
from tests.support.kube_apiserver import KubeApiserver
from tests.support.unreliable_writer import UnreliableWriter
from tests.support.waiting import until


@pytest.fixture
async def cluster(server: KubeApiserver) -> AsyncIterator[ScheduledCluster]:
    RealCluster(server).namespace(NAMESPACE)
    async with await admin_client(server) as client:
        made = ScheduledCluster(server, client)
        yield made
        await made.clean()


async def test_bindings_that_fail_or_whose_fate_is_unknown(
    cluster: ScheduledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in fifty is lost on its way there, one in fifty back; there is room for just all pods."""
    monkeypatch.setattr(UnreliableWriter, "lost", 0.04)
    monkeypatch.setattr(UnreliableWriter, "counts", Counter())
    monkeypatch.setattr(api_writer, "Http2Writer", UnreliableWriter)
    await cluster.nodes(*(f"n{one}" for one in range(50)))
    made = module.SchedulerProgram(
        SchedulerSettings(port=0, leader_elect=False),
        default_scheduler_config(),
        cluster.client,
        "s1_0",
    )
    async with anyio.create_task_group() as group:
        group.start_soon(made.serve)
        await cluster.pods("web", 50 * CORES * 1000 // MILLICORES)
        await cluster.wait_bound(1000)
        await until(lambda: made.status().cached["assumed_pods"] == 0, "all confirmed")
        assert made.status().cached["pods"] == 1000
        group.cancel_scope.cancel()
    await cluster.check()
    assert UnreliableWriter.counts["before"] > 5
    assert UnreliableWriter.counts["after"] > 5


async def test_preemption(cluster: ScheduledCluster) -> None:
    """Full nodes: important pods get their nodes once the test has ended the victims."""
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in {"batch": 10, "web": 1000}.items()
    ]
    RealCluster(cluster.server).apply(*classes)
    await cluster.nodes("n1", "n2", "n3")
    made = module.SchedulerProgram(
        SchedulerSettings(port=0, leader_elect=False),
        default_scheduler_config(),
        cluster.client,
        "s1_0",
    )
    async with anyio.create_task_group() as group:
        group.start_soon(made.serve)
        await cluster.pods("batch", 6, 2000, priorityClassName="batch")
        await cluster.wait_bound(6)
        await cluster.pods("web", 2, 4000, priorityClassName="web")

        async def victims() -> list[Object] | None:
            pods = await cluster.all_pods()
            found = [one for one in pods if "deletionTimestamp" in one["metadata"]]
            return found if len(found) >= 4 else None

        found = await until(victims, "four victims")
        assert found is not None
        assert {one["metadata"]["labels"]["app"] for one in found} == {"batch"}
        for one in found:
            conditions = {each["type"]: each for each in one["status"]["conditions"]}
            assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
        waiting = [one for one in await cluster.all_pods() if "web" in one["metadata"]["name"]]
        nominated = {one["status"]["nominatedNodeName"] for one in waiting}
        assert nominated == {one["spec"]["nodeName"] for one in found}
        await for_all(cluster.end, [one["metadata"]["name"] for one in found])
        bound = await cluster.wait_bound(4)
        assert {bound["web-0"], bound["web-1"]} == nominated
        assert not any("deletionTimestamp" in one["metadata"] for one in await cluster.all_pods())
        group.cancel_scope.cancel()
