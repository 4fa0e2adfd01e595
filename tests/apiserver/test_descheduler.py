"""koord-descheduler beside a real API server, with the rights that deploy/ gives it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

import anyio
import pytest
from koord_kube.client import Client
from koord_kube.protocol.api import NotFoundError
from koord_kube.protocol.resources import EVENTS, POD_MIGRATION_JOBS, RESERVATIONS

from tests.apiserver.deployed_deschedulers import two_deschedulers
from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.played_cluster import NAMESPACE, App, PlayedCluster
from tests.apiserver.real_cluster import RealCluster
from tests.apiserver.scheduler_cluster import admin_client
from tests.support.kube_apiserver import ADMIN, find_program
from tests.support.listing import listed
from tests.support.processes import PATIENCE, Program
from tests.support.scheduler_program import SchedulerProgram
from tests.support.waiting import until

SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      multiPoint:
        enabled: [{name: LoadAwareScheduling, weight: 5}, {name: Reservation, weight: 5000}]
"""
KUBE_SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""
HIGH = 65
NODES = int(os.environ.get("DESCHEDULER_NODES", "10"))
"""A fifth of them is hot."""
HOT = tuple(f"hot-{number}" for number in range(NODES // 5))
COOL = tuple(f"cool-{number}" for number in range(NODES - len(HOT)))
SECONDS = PATIENCE + NODES
HEAD = f"""
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
deschedulingInterval: 2s
maxNoOfPodsToEvictPerNode: 2
maxNoOfPodsToEvictTotal: {max(6, NODES // 10)}
"""
LOAD = f"""
      - name: LowNodeLoad
        args:
          lowThresholds: {{cpu: 40, memory: 80}}
          highThresholds: {{cpu: {HIGH}, memory: 90}}
          anomalyCondition: {{consecutiveAbnormalities: 1}}
"""
BY_EVICTION = f"""{HEAD}
profiles:
  - name: direct
    plugins:
      balance: {{enabled: [{{name: LowNodeLoad}}]}}
      evict: {{enabled: [{{name: DefaultEvictor}}], disabled: [{{name: "*"}}]}}
      filter: {{enabled: [{{name: DefaultEvictor}}], disabled: [{{name: "*"}}]}}
    pluginConfig:
{LOAD}"""
BY_JOBS = f"""{HEAD}
profiles:
  - name: jobs
    plugins: {{balance: {{enabled: [{{name: LowNodeLoad}}]}}}}
    pluginConfig:
      - name: MigrationController
        args:
          schedulerNames: [default-scheduler]
          objectLimiters: {{workload: {{duration: 1s, maxMigrating: 8, burst: 8}}}}
          maxMigratingPerWorkload: 2
          maxUnavailablePerWorkload: 2
          maxConcurrentReconciles: 4
{LOAD}"""


@pytest.fixture
async def client(cluster: RealCluster) -> AsyncIterator[Client]:
    cluster.namespace(NAMESPACE)
    async with await admin_client(cluster.server) as made:
        yield made


@pytest.fixture(
    params=[(BY_EVICTION, True), (BY_JOBS, True), (BY_EVICTION, False)],
    ids=["by eviction", "by jobs", "with kube-scheduler"],
)
def case(request: pytest.FixtureRequest) -> tuple[str, bool]:
    """The descheduler's configuration, and whether the scheduler is ours."""
    found: tuple[str, bool] = request.param
    return found


@pytest.fixture
def deschedulers(cluster: RealCluster, case: tuple[str, bool]) -> Iterator[list[SchedulerProgram]]:
    """Two that are to be started."""
    config, is_ours = case
    scheduler_config = SCHEDULER if is_ours else KUBE_SCHEDULER
    with two_deschedulers(cluster, config, scheduler_config, "--cool-down=0") as made:
        yield made


@contextmanager
def scheduling(cluster: RealCluster, *, is_ours: bool) -> Iterator[None]:
    """Ours, or Kubernetes' own scheduler with its defaults, runs."""
    if is_ours:
        with deployed_scheduler(cluster, SCHEDULER) as scheduler:
            scheduler.start()
            yield
        return
    path = find_program("kube-scheduler")
    if path is None:
        pytest.skip("not installed: kube-scheduler")
    server = cluster.server
    flags = ["--leader-elect=false", "--secure-port=0", "--authorization-always-allow-paths=*"]
    made = Program("kube-scheduler", server.folder)
    flags.append(f"--kubeconfig={server.kubeconfig('kube-scheduler', ADMIN)}")
    made.spawn([*server.network.inside([]), path, *flags])
    try:
        yield
    finally:
        made.close()


def workloads() -> tuple[list[App], dict[str, list[str]]]:
    """For each two hot nodes three ReplicaSets, and the nodes of their first pods."""
    apps: list[App] = []
    placed: dict[str, list[str]] = {}
    for number in range(0, len(HOT), 2):
        pair = [*HOT[number : number + 2]]
        for app, nodes in (
            (App(f"web-{number}", 8), pair * 4),
            (App(f"budgeted-{number}", 4, min_available=3), pair * 2),
            (App(f"steady-{number}", 3, min_available=3), [*pair, COOL[number]]),
        ):
            apps.append(app)
            placed[app.name] = nodes
    return apps, placed


async def test_hot_nodes_cool_down_though_leaders_are_killed(
    cluster: RealCluster,
    client: Client,
    deschedulers: list[SchedulerProgram],
    case: tuple[str, bool],
) -> None:
    apps, placed = workloads()
    played = PlayedCluster(client, [*HOT, *COOL], apps)
    first, second = deschedulers
    config, is_ours = case
    try:
        await played.create(placed)
        await played.step()
        await played.step()
        assert max(played.load().values()) * 100 > HIGH
        played.fewest.clear()
        with scheduling(cluster, is_ours=is_ours):
            async with anyio.create_task_group() as group:
                group.start_soon(played.run)
                first.start()
                await until(lambda: bool(played.ended), "the first eviction")
                first.kill()
                second.start()
                await until(lambda: _is_cool(played), "no node is hot", seconds=SECONDS)
                await _check_why(second)
                await anyio.sleep(5)
                group.cancel_scope.cancel()
        assert _is_cool(played)
        assert len(played.ended) == len(set(played.ended)), "no pod was evicted twice"
        for app in apps:
            assert played.fewest[app.name] >= (app.min_available or 0), app.name
        await _check_events(client, played)
        if config is BY_JOBS:
            await _check_jobs(client)
    finally:
        await played.clean()


def _is_cool(played: PlayedCluster) -> bool:
    enough = sum(app.replicas for app in played.apps.values())
    placed = [pod for pod in played.pods.values() if pod["spec"].get("nodeName")]
    return len(placed) == enough and max(played.load().values()) * 100 <= HIGH


async def _check_why(program: SchedulerProgram) -> None:
    status = await anyio.to_thread.run_sync(program.page, "/v1/status")
    assert status["leads"]
    assert status["problems"] == []
    plan = await anyio.to_thread.run_sync(program.page, "/v1/plan")
    assert plan["moves"] == [], "nothing more is to move"


async def _check_events(client: Client, played: PlayedCluster) -> None:
    """Evicted pods have an Event, but for those whose descheduler was killed before it wrote it."""
    events, _ = await listed(client, EVENTS, NAMESPACE)
    events = [event for event in events if event["reason"] == "Descheduled"]
    about = [event["involvedObject"]["uid"] for event in events]
    reported = [uid for uid in about if uid in played.uids]
    assert set(reported) <= set(played.ended)
    assert len(set(reported)) == len(reported)
    assert reported
    assert all("node is overutilized" in event["message"] for event in events)


async def _check_jobs(client: Client) -> None:
    """Every job is over, and leaves no Reservation that keeps room for nobody."""

    async def all_over() -> bool:
        jobs, _ = await listed(client, POD_MIGRATION_JOBS)
        phases = [job.get("status", {}).get("phase", "") for job in jobs]
        return bool(phases) and set(phases) <= {"Succeeded", "Failed"}

    await until(all_over, "all jobs are over")
    jobs, _ = await listed(client, POD_MIGRATION_JOBS)
    assert any(job["status"]["phase"] == "Succeeded" for job in jobs)
    reservations, _ = await listed(client, RESERVATIONS)
    assert [one for one in reservations if one["status"]["phase"] in ("Pending", "Available")] == []
    for resource, found in ((POD_MIGRATION_JOBS, jobs), (RESERVATIONS, reservations)):
        for one in found:
            with suppress(NotFoundError):  # that of a job goes with it
                await client.delete(resource, one["metadata"]["name"])
