"""A node is drained beside a real API server, by the programs themselves: Reservations first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
from koord_descheduler.drain.drain_objects import ANNOTATION_CLAIM, LABEL_DRAIN
from koord_descheduler.objects.eviction_order import ANNOTATION_DELETION_COST
from koord_descheduler.plugins.scale_down_bin_pack import ANNOTATION_OWN_COST
from koord_descheduler.tide.core.pod_sides import LABEL_POD_TYPE
from koord_descheduler.tide.core.pool_spec import PREFIX
from koord_kube.client import Client
from koord_kube.protocol.resources import (
    DRAIN_NODE_GROUPS,
    DRAIN_NODES,
    NODES,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
    Resource,
)
from koordctl.main import main

from tests.apiserver.deployed_deschedulers import two_deschedulers
from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.played_cluster import NAMESPACE, App, PlayedCluster
from tests.apiserver.real_cluster import RealCluster
from tests.apiserver.scheduler_cluster import admin_client
from tests.support.kube_apiserver import ADMIN
from tests.support.listing import listed
from tests.support.scheduler_program import SchedulerProgram
from tests.support.waiting import until

SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: {multiPoint: {enabled: [{name: Reservation, weight: 5000}]}}
"""
CONFIG = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
deschedulingInterval: 1h
profiles:
  - name: jobs
    pluginConfig:
      - name: MigrationController
        args:
          schedulerNames: [default-scheduler]
          objectLimiters: {workload: {duration: 1s, maxMigrating: 8, burst: 8}}
          maxMigratingPerWorkload: 2
          maxUnavailablePerWorkload: 2
      - name: ScaleDownBinPack
        args: {podSelectors: [{selector: {matchLabels: {app: web}}}]}
    plugins: {balance: {enabled: [{name: ScaleDownBinPack}]}}
"""
NODES_OF_IT = ("old", "new-0", "new-1")
SIDE = f"{PREFIX}/node-type"
TIDE_POOL: dict[str, Any] = {
    "apiVersion": "tide.katalyst.kubewharf.io/v1alpha1",
    "kind": "TideNodePool",
    "metadata": {"name": "tide"},
    "spec": {
        "nodeConfigs": {"reserve": {"online": 2}},
        "evictStrategy": {"type": "watermark", "watermark": {"low": 60, "high": 90}},
        "coolDown": "1s",
    },
}


@pytest.fixture
async def client(cluster: RealCluster) -> AsyncIterator[Client]:
    cluster.namespace(NAMESPACE)
    async with await admin_client(cluster.server) as made:
        yield made


@pytest.fixture
def deschedulers(cluster: RealCluster) -> Iterator[list[SchedulerProgram]]:
    """Two that are to be started."""
    with two_deschedulers(cluster, CONFIG, SCHEDULER, "--cool-down=0") as made:
        yield made


async def test_a_node_is_drained_as_was_planned_though_the_leader_is_killed(
    cluster: RealCluster, client: Client, deschedulers: list[SchedulerProgram]
) -> None:
    played = PlayedCluster(client, NODES_OF_IT, [App("web", 4, min_available=3), App("db", 1)])
    first, second = deschedulers
    with deployed_scheduler(cluster, SCHEDULER) as scheduler:
        try:
            await played.create({"web": ["old"] * 4, "db": ["old"]})
            await played.step()
            await played.step()
            users = await _give_a_cost(client)
            scheduler.start()
            first.start()
            async with anyio.create_task_group() as group:
                group.start_soon(played.run)
                await until(lambda: _has_costs(client, users), "all others have costs")
                assert await _ctl(cluster, "--plan") == 1, "db is the only one of its kind"
                assert not played.ended
                rules = [{"selector": {"matchLabels": {"app": "db"}}, "behavior": "Drain"}]
                drain = (await listed(client, DRAIN_NODES))[0][0]
                name = drain["metadata"]["name"]
                await client.patch(DRAIN_NODES, name, {"spec": {"podRules": rules}})
                assert await _ctl(cluster, "--plan", wait="Waiting") == 0
                planned = {
                    pod["name"]: pod["targetNode"]
                    for pod in (await client.get(DRAIN_NODES, name))["status"]["pods"]
                }
                assert len(planned) == 5
                played.fewest.clear()
                assert await _ctl(cluster, "--confirm") == 0
                await until(lambda: bool(played.ended), "the first pod moves")
                first.kill()
                second.start()
                await _phase(client, name, "Drained")
                await until(lambda: _is_whole(played), "all pods are placed")
                assert len(played.ended) == len(set(played.ended)) == 5
                assert played.fewest["web"] >= 3, "its budget holds for drains too"
                targets = sorted(pod["spec"]["nodeName"] for pod in played.pods.values())
                assert targets == sorted(planned.values()), "it was done as it was planned"
                assert _conditions(await client.get(NODES, "old"))["Drained"] == "True"
                await client.delete(DRAIN_NODES, name)
                await _until_undone(client, name)
                node = await client.get(NODES, "old")
                assert not node["spec"].get("unschedulable")
                assert _conditions(node)["Drained"] == "False"
                await _check_abort(cluster, client)
                await _check_group(client)
                group.cancel_scope.cancel()
        finally:
            await played.clean()


async def test_a_node_changes_sides_and_comes_back_though_the_leader_is_killed(
    cluster: RealCluster, client: Client
) -> None:
    """The pool is the whole cluster; the killed leader leaves a move that the next one ends."""
    batch = App(
        "batch",
        2,
        labels={LABEL_POD_TYPE: "offline"},
        node_selector={SIDE: "offline"},
        tolerates=f"{PREFIX}/online-not-used",
    )
    web = App("web", 6, requests=0.5, min_available=5)
    big = App("big", 0, requests=3.5)
    played = PlayedCluster(client, NODES_OF_IT, [web, batch, big])
    with (
        two_deschedulers(
            cluster, CONFIG, SCHEDULER, "--cool-down=0", "--feature-gates=TideNodePool=true"
        ) as (first, second),
        deployed_scheduler(cluster, SCHEDULER) as scheduler,
    ):
        try:
            await played.create({"web": [*NODES_OF_IT] * 2})
            await played.step()
            await played.step()
            played.fewest.clear()
            scheduler.start()
            first.start()
            async with anyio.create_task_group() as group:
                group.start_soon(played.run)
                cluster.apply(TIDE_POOL)
                await until(lambda: bool(played.ended), "the first pod moves")
                first.kill()
                second.start()
                await until(lambda: _offline(client), "a node is offline")
                (gone,) = await _sides(client, "offline")
                await until(lambda: _runs(played, "batch", 2), "batch jobs run there")
                assert {pod["spec"]["nodeName"] for pod in _pods(played, "batch")} == {gone}
                assert len(_pods(played, "web")) == 6
                assert played.fewest["web"] >= 5, "its budget holds"
                assert len(played.ended) == 2, "no other pod was moved, and none twice"
                big.replicas = 1
                await until(lambda: _runs(played, "big", 1), "the service has its place")
                assert await _sides(client, "offline") == []
                assert not _runs(played, "batch", 1)
                cluster.kubectl("delete", "tidenodepool", "tide", "--timeout=60s")
                labels = [node["metadata"]["labels"] for node in (await listed(client, NODES))[0]]
                assert not any(key.startswith(PREFIX) for each in labels for key in each)
                group.cancel_scope.cancel()
        finally:
            await played.clean()


async def _sides(client: Client, side: str) -> list[str]:
    """The nodes of a side that are not on their way."""
    return [
        node["metadata"]["name"]
        for node in (await listed(client, NODES))[0]
        if node["metadata"]["labels"].get(SIDE) == side and not node["spec"].get("unschedulable")
    ]


async def _offline(client: Client) -> bool:
    return bool(await _sides(client, "offline"))


def _pods(played: PlayedCluster, app: str) -> list[dict[str, Any]]:
    return [
        pod
        for pod in played.pods.values()
        if pod["metadata"]["labels"]["app"] == app
        and pod["spec"].get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
    ]


def _runs(played: PlayedCluster, app: str, number: int) -> bool:
    return len(_pods(played, app)) >= number


async def _check_abort(cluster: RealCluster, client: Client) -> None:
    """A node that was cordoned before stays so, and nothing else is left."""
    await client.patch(NODES, "new-0", {"spec": {"unschedulable": True}})
    spec: dict[str, Any] = {"nodeName": "new-0", "podRules": [{"behavior": "Drain"}]}
    document = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "DrainNode",
        "metadata": {"name": "d"},
        "spec": spec,
    }
    await client.create(DRAIN_NODES, document)
    assert await _ctl(cluster, "--plan", node="new-0", wait="Waiting") == 0
    assert await _ctl(cluster, "--abort", node="new-0") == 0
    await _phase(client, "d", "Aborted")
    while not (await client.get(DRAIN_NODES, "d"))["status"].get("endTime"):
        await anyio.sleep(0.1)
    node = await client.get(NODES, "new-0")
    assert node["spec"]["unschedulable"]
    assert ANNOTATION_CLAIM not in node["metadata"].get("annotations", {})
    assert await _left(client, RESERVATIONS) == []
    assert await _left(client, POD_MIGRATION_JOBS) == []
    await client.delete(DRAIN_NODES, "d")


async def _check_group(client: Client) -> None:
    """Its nodes are planned one by one, and none without a partition is confirmed."""
    await client.patch(NODES, "new-0", {"spec": {"unschedulable": None}})
    spec: dict[str, Any] = {
        "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "old"}},
        "podRules": [{"behavior": "Drain"}],
    }
    kind = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "DrainNodeGroup"}
    await client.create(DRAIN_NODE_GROUPS, kind | {"metadata": {"name": "g"}, "spec": spec})
    await _phase(client, "g", "Waiting", DRAIN_NODE_GROUPS)
    [drain], _ = await listed(client, DRAIN_NODES)
    assert (drain["spec"]["nodeName"], drain["status"]["phase"]) == ("old", "Waiting")
    assert drain["spec"].get("confirmState", "WaitForConfirm") == "WaitForConfirm"
    partition = {"spec": {"executionPolicy": {"partition": 1}}}
    await client.patch(DRAIN_NODE_GROUPS, "g", partition)
    await _phase(client, "g", "Succeeded", DRAIN_NODE_GROUPS)
    await client.delete(DRAIN_NODE_GROUPS, "g")
    # Its drains are the garbage collector's, which does not run here.
    await client.delete(DRAIN_NODES, drain["metadata"]["name"])
    await _until_undone(client, drain["metadata"]["name"])
    assert not (await client.get(NODES, "old"))["spec"].get("unschedulable")


async def _give_a_cost(client: Client) -> str:
    """A user's own deletion cost of one pod, whose name is returned."""
    name = str((await _web_pods(client))[0]["name"])
    annotations = {ANNOTATION_DELETION_COST: "-7"}
    await client.patch(PODS, name, {"metadata": {"annotations": annotations}}, NAMESPACE)
    return name


async def _has_costs(client: Client, users: str) -> bool:
    """ScaleDownBinPack wrote its costs, and left the user's as it was."""
    written = []
    for pod in await _web_pods(client):
        found = pod.get("annotations", {})
        cost, own = found.get(ANNOTATION_DELETION_COST), found.get(ANNOTATION_OWN_COST)
        if pod["name"] == users:
            assert (cost, own) == ("-7", None)
        elif cost == own is not None:
            written.append(cost)
    return len(written) == 3


async def _web_pods(client: Client) -> list[dict[str, Any]]:
    pods = (pod["metadata"] for pod in (await listed(client, PODS, NAMESPACE))[0])
    return [pod for pod in pods if pod["labels"]["app"] == "web"]


async def _ctl(cluster: RealCluster, *words: str, node: str = "old", wait: str = "") -> int:
    """``koordctl drain``, again until its plan is there."""
    config = cluster.server.kubeconfig("admin", ADMIN)

    def run() -> int:
        try:
            main(["drain", node, *words, f"--kubeconfig={config}"])
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    with anyio.move_on_after(60 if wait else 0.1):
        while True:
            code = await anyio.to_thread.run_sync(run)
            if not (wait and code):
                return code
            await anyio.sleep(0.5)
    return 1


async def _phase(client: Client, name: str, phase: str, resource: Resource = DRAIN_NODES) -> None:
    """Wait for a phase."""
    shown: dict[str, Any] = {}
    with anyio.move_on_after(90):
        while shown.get("phase") != phase:
            await anyio.sleep(0.2)
            shown = (await client.get(resource, name)).get("status") or {}
    assert shown.get("phase") == phase, shown


async def _until_undone(client: Client, name: str) -> None:
    with anyio.fail_after(60):
        while any(
            each["metadata"]["name"] == name for each in (await listed(client, DRAIN_NODES))[0]
        ):
            await anyio.sleep(0.2)
    assert await _left(client, RESERVATIONS) == []


async def _left(client: Client, resource: Resource) -> list[str]:
    found, _ = await listed(client, resource)
    return [
        each["metadata"]["name"]
        for each in found
        if LABEL_DRAIN in each["metadata"].get("labels", {})
    ]


def _is_whole(played: PlayedCluster) -> bool:
    placed = [pod for pod in played.pods.values() if pod["spec"].get("nodeName", "old") != "old"]
    return len(placed) == 5


def _conditions(node: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in node["status"]["conditions"]}
