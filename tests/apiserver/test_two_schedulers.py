"""koord-scheduler and kube-scheduler fill the same nodes: who is refused by kubelets makes room."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial

import anyio
import pytest
from koord_kube.protocol.resources import PODS
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.program.program import SchedulerProgram
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
from tests.apiserver.scheduling_history import SchedulingHistory, forgotten_pods
from tests.support.following import follow
from tests.support.kube_apiserver import ADMIN, KubeApiserver, find_program
from tests.support.processes import Program
from tests.support.waiting import until

OURS = "koord-scheduler"
CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{schedulerName: {OURS}}}]
"""
NODE_COUNT = 50
SLOTS = CORES * 1000 // MILLICORES
"""Pods for which a node has room."""


@pytest.fixture
def kube_scheduler(server: KubeApiserver) -> Iterator[Program]:
    """The real one, for pods that name no scheduler."""
    path = find_program("kube-scheduler")
    if path is None:
        pytest.skip("not installed: kube-scheduler")
    made = Program("kube-scheduler", server.folder)
    flags = ["--leader-elect=false", "--secure-port=0"]
    flags.append(f"--kubeconfig={server.kubeconfig('kube-scheduler', ADMIN)}")
    made.spawn(server.network.inside([path, *flags]))
    yield made
    made.close()


@pytest.fixture
async def cluster(server: KubeApiserver) -> AsyncIterator[ScheduledCluster]:
    RealCluster(server).namespace(NAMESPACE)
    async with await admin_client(server) as client:
        made = ScheduledCluster(server, client)
        yield made
        await made.clean()


@pytest.mark.usefixtures("kube_scheduler")
async def test_both_fill_the_same_nodes_to_the_brim(cluster: ScheduledCluster) -> None:
    client, history = cluster.client, SchedulingHistory((CORES * 1000, 110))
    settings = SchedulerSettings(port=0, leader_elect=False)
    ours = SchedulerProgram(settings, read_scheduler_config(CONFIG), client, "s1_0")

    async def settled() -> bool:
        status = ours.status()
        waiting = status.pending["unschedulable"] == sum(status.pending.values())
        return waiting and not status.cached["assumed_pods"] and not await forgotten(cluster)

    async with anyio.create_task_group() as group:
        group.start_soon(follow, client, PODS, NAMESPACE, history.pod_event)
        await cluster.nodes(*(f"n{one}" for one in range(NODE_COUNT)))
        group.start_soon(ours.serve)
        async with anyio.create_task_group() as creation:
            number = NODE_COUNT * SLOTS * 6 // 10
            creation.start_soon(partial(cluster.pods, "ours", number, schedulerName=OURS))
            creation.start_soon(cluster.pods, "theirs", number)
        await until(settled, "full nodes")
        before = await cluster.bound()
        print(f"{len(history.violations)} of {len(before)} pods too many")
        assert all("is too much for" in one for one in history.violations), "nothing has moved"

        # What is known to be full is not taken, by whomever it was filled.
        await cluster.pods("more", 20, schedulerName=OURS)
        await until(lambda: _waits_for(ours, 20), "all of them wait")
        assert not {name for name in await cluster.bound() if name.startswith("more")}

        rejected = await _reject_all_that_does_not_fit(cluster, settled, set())
        before = await cluster.bound()
        assert len(before) - len(rejected) == NODE_COUNT * SLOTS
        # Kubelets reject more: of each of ten nodes, one pod. Both may give away that room, too.
        ended = {*rejected, *_one_of_each(before, rejected)[:10]}
        await for_all(partial(_reject, cluster), ended - rejected)
        await until(settled, "their room is taken")
        ended = await _reject_all_that_does_not_fit(cluster, settled, ended)
        assert len(await cluster.bound()) - len(ended) == NODE_COUNT * SLOTS
        group.cancel_scope.cancel()


def _waits_for(ours: SchedulerProgram, number: int) -> bool:
    pending = ours.status().pending
    return pending["unschedulable"] >= number and not pending["active"]


async def forgotten(cluster: ScheduledCluster) -> list[str]:
    return forgotten_pods(*await cluster.objects())


def _one_of_each(bound: dict[str, str], rejected: set[str]) -> list[str]:
    """A pod of each node."""
    return list({node: pod for pod, node in bound.items() if pod not in rejected}.values())


async def _reject_all_that_does_not_fit(
    cluster: ScheduledCluster, settled: Callable[[], Awaitable[bool]], ended: set[str]
) -> set[str]:
    """All that have ended by then: the other scheduler may bind pods meanwhile."""
    while again := await reject_what_does_not_fit(cluster, ended):
        ended = ended | again
        await until(settled, "full nodes")
    return ended


async def reject_what_does_not_fit(cluster: ScheduledCluster, ended: set[str]) -> set[str]:
    """What kubelets do of pods for which there is no room any more."""
    bound = {pod: node for pod, node in (await cluster.bound()).items() if pod not in ended}
    on, rejected = Counter[str](), set[str]()
    for pod, node in bound.items():
        on[node] += 1
        if on[node] > SLOTS:
            rejected.add(pod)
    await for_all(partial(_reject, cluster), rejected)
    return rejected


async def _reject(cluster: ScheduledCluster, pod: str) -> None:
    message = "Node didn't have enough resource: cpu"
    status = {"phase": "Failed", "reason": "OutOfcpu", "message": message}
    await cluster.client.patch(PODS, pod, {"status": status}, NAMESPACE, subresource="status")
