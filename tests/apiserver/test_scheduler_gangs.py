"""Gangs by a real API server: whole, also where a scheduler is killed while it binds them."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import anyio
import msgspec
import pytest
from koord_kube.protocol.resources import POD_GROUPS, PODS
from koord_model.keys import ANNOTATION_BIND_GANG_COUNT, ANNOTATION_GANG_GROUPS, LABEL_POD_GROUP

from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.real_cluster import RealCluster
from tests.apiserver.scheduler_cluster import (
    CORES,
    MILLICORES,
    NAMESPACE,
    ScheduledCluster,
    admin_client,
    for_all,
)
from tests.apiserver.scheduling_history import Pod
from tests.support.following import follow
from tests.support.kube_apiserver import KubeApiserver
from tests.support.processes import PATIENCE
from tests.support.scheduler_program import SchedulerProgram
from tests.support.waiting import until

SIZE = 32
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}}],
}


@pytest.fixture
def scheduler(cluster: RealCluster) -> Iterator[SchedulerProgram]:
    with deployed_scheduler(cluster, json.dumps(CONFIG)) as made:
        yield made


@pytest.fixture
async def gangs(server: KubeApiserver) -> AsyncIterator[ScheduledCluster]:
    RealCluster(server).namespace(NAMESPACE)
    async with await admin_client(server) as client:
        made = ScheduledCluster(server, client)
        yield made
        await made.clean()


async def gang(cluster: ScheduledCluster, name: str, *group: str) -> None:
    """A PodGroup in a ``group`` of others, and its pods, which have no node."""
    annotations = {ANNOTATION_GANG_GROUPS: json.dumps([f"{NAMESPACE}/{one}" for one in group])}
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": annotations}
    head = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
    document = {**head, "metadata": metadata, "spec": {"minMember": SIZE}}
    await cluster.client.create(POD_GROUPS, document, NAMESPACE)
    await cluster.pods(name, SIZE, labels={LABEL_POD_GROUP: name})


def by_gang(bound: dict[str, str]) -> Counter[str]:
    return Counter(name.rpartition("-")[0] for name in bound)


async def phase(cluster: ScheduledCluster, name: str) -> str:
    found = await cluster.client.get(POD_GROUPS, name, NAMESPACE)
    return str(found.get("status", {}).get("phase", ""))


async def test_gangs_whose_scheduler_is_killed_are_completed_by_the_next(
    gangs: ScheduledCluster, scheduler: SchedulerProgram
) -> None:
    names = [f"g{number}" for number in range(8)]
    pods, nodes = SIZE * len(names), SIZE * len(names) * MILLICORES // (CORES * 1000) + 1
    await gangs.nodes(*(f"n{one}" for one in range(nodes)))
    for name in names:
        await gang(gangs, name, *names)
    killed, bound = anyio.Event(), set[str]()

    def event(kind: str, raw: bytes, at: float) -> None:
        one = msgspec.json.decode(raw, type=Pod)
        if one.spec.node:
            bound.add(one.metadata.name)
        if len(bound) > SIZE // 2 and not killed.is_set():
            scheduler.kill()
            killed.set()

    async with anyio.create_task_group() as group:
        group.start_soon(follow, gangs.client, PODS, NAMESPACE, event)
        await asyncio.to_thread(scheduler.start)
        with anyio.fail_after(PATIENCE):
            await killed.wait()
        then = await gangs.bound()
        assert SIZE // 2 < len(then) < pods, "it was killed while it bound them"
        await asyncio.to_thread(scheduler.start)
        await until(lambda: scheduler.ready, "ready")
        await until(lambda: scheduler.leads, "a leader")
        led = time.monotonic()
        now = await gangs.wait_bound(pods)
        assert time.monotonic() - led < 10
        assert then.items() <= now.items(), "what was bound stayed where it was"
        written = {
            one["metadata"]["annotations"].get(ANNOTATION_BIND_GANG_COUNT)
            for one in await gangs.all_pods()
            if one["metadata"]["name"] in then
        }
        assert written == {str(pods)}
        await gangs.check()
        for name in names:
            await until(
                lambda name=name: _stands(gangs, name, "Scheduled"), f"the status of {name}"
            )
        group.cancel_scope.cancel()


async def _stands(cluster: ScheduledCluster, name: str, wanted: str) -> bool:
    return await phase(cluster, name) == wanted


async def test_two_gangs_of_which_each_fits_only_alone_never_hold_a_half(
    gangs: ScheduledCluster, scheduler: SchedulerProgram
) -> None:
    slots = CORES * 1000 // MILLICORES
    await gangs.nodes(*(f"n{one}" for one in range(SIZE // slots + 1)))
    await asyncio.to_thread(scheduler.start)
    await until(lambda: scheduler.ready, "ready")
    await until(lambda: scheduler.leads, "a leader")
    async with anyio.create_task_group() as group:
        for name in ("a", "b"):
            group.start_soon(gang, gangs, name)
    await gangs.wait_bound(SIZE)
    for _ in range(10):
        assert [*by_gang(await gangs.bound()).values()] == [SIZE]
        await anyio.sleep(0.2)
    [winner] = by_gang(await gangs.bound())
    loser = "b" if winner == "a" else "a"

    async def reported() -> bool:
        pod = await gangs.client.get(PODS, f"{loser}-0", NAMESPACE)
        conditions = pod.get("status", {}).get("conditions", ())
        return any("at once" in one.get("message", "") for one in conditions)

    await until(reported, "why it waits")
    await for_all(gangs.end, [f"{winner}-{number}" for number in range(SIZE)])

    async def all_bound() -> bool:
        return by_gang(await gangs.bound()) == {loser: SIZE}

    await until(all_bound, "the other one")
