"""A plan of Defragmentation beside a real API server: what is shown is what happens, or nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
from koord_kube.client import Client
from koord_kube.protocol.api import Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import (
    DEVICES,
    NODES,
    POD_GROUPS,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
)
from koord_model.keys import (
    ANNOTATION_DEVICE_ALLOCATED,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    LABEL_POD_GROUP,
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
    plugins:
      multiPoint:
        enabled: [{name: DeviceShare}, {name: Coscheduling}, {name: Reservation, weight: 5000}]
"""
CONFIG = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
deschedulingInterval: 2s
profiles:
  - name: jobs
    plugins: {balance: {enabled: [{name: Defragmentation}]}}
    pluginConfig:
      - name: MigrationController
        args:
          schedulerNames: [default-scheduler]
          skipEvictionGates: [ExpectedReplicas]
          objectLimiters: {workload: {duration: 1s, maxMigrating: 8, burst: 8}}
      - name: Defragmentation
        args: {waiting: {minSeconds: 0}}
"""
JOBS = "jobs"
"""The namespace of what waits."""
CPU_POOL = {"pool": "cpu"}
CHAINED = [
    App(name, 1, requests=cores, node_selector=CPU_POOL)
    for name, cores in (("large", 2.0), ("small", 1.0), ("stays", 2.0), ("last", 2.5))
]
SHARING = [App(name, 2, min_available=1, limits={GPU: "50"}) for name in ("a", "b")]
"""Halves of cards: one on a node of its own, one on the node where both could be."""
PLACED = {
    "large": ["n0"], "small": ["n1"], "stays": ["n1"], "last": ["n2"],
    "a": ["g0", "g2"], "b": ["g1", "g2"],
}  # fmt: skip
MINORS = {"a": 0, "b": 1}


@pytest.fixture
async def client(cluster: RealCluster) -> AsyncIterator[Client]:
    for name in (NAMESPACE, JOBS):
        cluster.namespace(name)
    async with await admin_client(cluster.server) as made:
        yield made


@pytest.fixture
def deschedulers(cluster: RealCluster) -> Iterator[list[SchedulerProgram]]:
    """Two that are to be started."""
    with two_deschedulers(cluster, CONFIG, SCHEDULER, "--cool-down=0") as made:
        yield made


@pytest.fixture
async def played(client: Client) -> AsyncIterator[PlayedCluster]:
    """Pods run; a gang of two waits for both cards of a node each, a pod for a whole node."""
    made = PlayedCluster(client, ("n0", "n1", "n2", "g0", "g1", "g2"), [*CHAINED, *SHARING])
    try:
        await made.create(PLACED)
        for name in made.nodes:
            await (_add_gpus if name.startswith("g") else _label)(client, name)
        for pod in (await listed(client, PODS, NAMESPACE))[0]:
            if (minor := MINORS.get(pod["metadata"]["labels"]["app"])) is not None:
                await _give_card(client, pod, minor)
        await made.step()
        await made.step()
        made.fewest.clear()
        await _wait_for_room(client)
        yield made
    finally:
        await made.clean()
        for pod in (await listed(client, PODS, JOBS))[0]:
            await _delete(client, pod)
        for resource in (POD_MIGRATION_JOBS, DEVICES):
            for found in (await listed(client, resource))[0]:
                await client.delete(resource, found["metadata"]["name"])
        await client.delete(POD_GROUPS, "gang", JOBS)


async def _label(client: Client, name: str) -> None:
    await client.patch(NODES, name, {"metadata": {"labels": CPU_POOL}})


async def _add_gpus(client: Client, name: str) -> None:
    amounts = {GPU: "200"}
    status = {"capacity": amounts, "allocatable": amounts}
    await client.patch(NODES, name, {"status": status}, subresource="status")
    card = {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"}
    devices = [
        {"type": "gpu", "id": f"{name}-{minor}", "minor": minor, "health": True, "resources": card}
        for minor in range(2)
    ]
    head = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device"}
    await client.create(DEVICES, {**head, "metadata": {"name": name}, "spec": {"devices": devices}})


async def _give_card(client: Client, pod: Object, minor: int) -> None:
    """As the scheduler notes what a pod got."""
    half = {GPU_CORE: "50", GPU_MEMORY_RATIO: "50", GPU_MEMORY: "8Gi"}
    written = json.dumps({"gpu": [{"minor": minor, "resources": half}]})
    patch = {"metadata": {"annotations": {ANNOTATION_DEVICE_ALLOCATED: written}}}
    await client.patch(PODS, pod["metadata"]["name"], patch, NAMESPACE)


async def _wait_for_room(client: Client) -> None:
    head = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
    group = {**head, "metadata": {"name": "gang"}, "spec": {"minMember": 2}}
    await client.create(POD_GROUPS, group, JOBS)
    for name, amounts, labels, selector in (
        ("gang-0", {GPU: "200"}, {LABEL_POD_GROUP: "gang"}, {}),
        ("gang-1", {GPU: "200"}, {LABEL_POD_GROUP: "gang"}, {}),
        ("whole", {"cpu": "4"}, {}, CPU_POOL),
    ):
        resources = {"requests": amounts, "limits": amounts}
        containers = [{"name": "c", "image": "i", "resources": resources}]
        spec = {"containers": containers, "nodeSelector": selector}
        pod = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        await client.create(PODS, pod, JOBS)


async def _delete(client: Client, pod: Object) -> None:
    metadata = pod["metadata"]
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    request = Request("DELETE", PODS, metadata["name"], metadata["namespace"], body=body)
    await client.write(request)


@pytest.fixture
def show(cluster: RealCluster, capsys: pytest.CaptureFixture[str]) -> Any:
    """Ask koordctl as an administrator, and read what it shows."""
    config = cluster.server.kubeconfig("admin", ADMIN)

    async def ask(*words: str) -> str:
        await anyio.to_thread.run_sync(main, [*words, f"--kubeconfig={config}"])
        return capsys.readouterr().out

    return ask


async def _plan(cluster: RealCluster, show: Any) -> Object:
    path = cluster.server.folder / "plan-scheduler.yaml"
    path.write_text(SCHEDULER)
    return dict(json.loads(await show("defrag", "--plan", "--json", f"--config={path}")))


async def _jobs(client: Client) -> dict[str, Object]:
    """Jobs by the pods that they move."""
    found, _ = await listed(client, POD_MIGRATION_JOBS)
    return {job["spec"]["podRef"]["name"]: job for job in found}


async def _made(client: Client) -> dict[str, Object]:
    """The jobs of both sets, once they begin."""

    async def all_begin() -> dict[str, Object]:
        found = await _jobs(client)
        begin = [job for job in found.values() if job.get("status", {}).get("phase") == "Running"]
        return found if len(begin) == 4 else {}

    return await until(all_begin, "all jobs begin")


async def test_what_is_planned_is_executed_step_by_step(
    cluster: RealCluster,
    client: Client,
    played: PlayedCluster,
    deschedulers: list[SchedulerProgram],
    show: Any,
) -> None:
    """A budget is spent before the evictions, and the leader killed while one waits for it."""
    plan = await _plan(cluster, show)
    targets = {move["pod"].rpartition("-")[0]: move["to"] for move in plan["moves"]}
    planned = {"small": "n2", "large": "n1", "a": "g2", "b": "g2"}
    assert targets == {f"{NAMESPACE}/{app}": node for app, node in planned.items()}
    first, second = deschedulers
    first.start()
    async with anyio.create_task_group() as group:
        group.start_soon(played.run)
        jobs = await _made(client)
        played.apps["a"].min_available = 2
        with deployed_scheduler(cluster, SCHEDULER) as scheduler:
            scheduler.start()

            async def refused() -> bool:
                found = (await _jobs(client)).values()
                return any("disruption budget" in job["status"].get("message", "") for job in found)

            await until(refused, "an eviction is refused")
            first.kill()
            second.start()
            await anyio.sleep(1.0)
            played.apps["a"].min_available = 1

            async def placed() -> dict[str, str] | None:
                pods, _ = await listed(client, PODS, JOBS)
                nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}
                return nodes if all(nodes.values()) else None

            nodes = await until(placed, "all that waited has a node")
            expected = {
                key.partition("/")[2]: node
                for note in plan["notes"].values()
                for key, node in note["nodes"].items()
            }
            assert nodes["whole"] == expected["whole"] == "n0"
            assert sorted(nodes.values()) == sorted(expected.values())

            async def all_over() -> dict[str, Object]:
                found = await _jobs(client)
                is_over = all(job["status"]["phase"] == "Succeeded" for job in found.values())
                return found if is_over else {}

            jobs = await until(all_over, "all jobs have succeeded")
            group.cancel_scope.cancel()
    assert len(jobs) == len(played.ended) == len(set(played.ended)) == 4
    by_app = {name.partition("-")[0]: job for name, job in jobs.items()}
    for app, job in by_app.items():
        pod = await client.get(PODS, job["status"]["podRef"]["name"], NAMESPACE)
        assert pod["spec"]["nodeName"] == job["status"]["nodeName"] == planned[app]
    assert played.fewest["a"] == played.fewest["b"] == 1
    _check_order(by_app)


def _check_order(jobs: dict[str, Object]) -> None:
    """All places of a wave stood before its first pod left; the second one came after it."""

    def at(app: str, kind: str, field: str = "lastTransitionTime") -> str:
        conditions = jobs[app]["status"]["conditions"]
        return str(next(each[field] for each in conditions if each["type"] == kind))

    stood = [at(app, "ReservationScheduled") for app in ("a", "b")]
    assert max(stood) <= min(at(app, "Eviction", "lastProbeTime") for app in ("a", "b"))
    assert at("small", "Eviction") <= at("large", "ReservationScheduled")


async def test_a_set_of_which_a_pod_is_gone_is_given_up(
    client: Client, played: PlayedCluster, deschedulers: list[SchedulerProgram], show: Any
) -> None:
    """No scheduler runs, so that nothing moves before."""
    first, _ = deschedulers
    first.start()
    jobs = await _made(client)
    gone = next(name for name in jobs if name.startswith("a-"))
    stays = next(name for name in jobs if name.startswith("b-"))
    for app in SHARING:
        played.apps[app.name] = App(app.name, 2, min_available=2)
    await played.step()
    await _delete(client, await client.get(PODS, gone, NAMESPACE))

    async def failed() -> Object | None:
        job = (await _jobs(client))[stays]
        return job if job["status"]["phase"] == "Failed" else None

    job = await until(failed, "the other one stops")
    why = f"its set stays: {NAMESPACE}/{gone} failed (MissingPod: "
    assert why in job["status"]["message"]
    assert why in await show("migrations", f"{NAMESPACE}/{stays}")
    shown = await anyio.to_thread.run_sync(
        lambda: first.page("/v1/why", pod=f"{NAMESPACE}/{stays}")
    )
    assert why in shown["jobs"][0]["message"]

    async def free() -> bool:
        names = {each["metadata"]["name"] for each in (await listed(client, RESERVATIONS))[0]}
        return not names & {job["metadata"]["uid"], jobs[gone]["metadata"]["uid"]}

    await until(free, "their Reservations are gone")
    assert played.ended == []
