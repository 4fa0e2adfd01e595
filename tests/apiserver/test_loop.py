"""Once round the loop beside a real API server: NodeMetric, batch resources, webhook, hook, cgroup.

Manager and koordlet have the rights of deploy/rbac; runtime proxy and containerd are real too.
Doubles of a scheduler and a kubelet are left. ``test_colocation_loop`` looks at amounts as well.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from koord_kube.client import Client
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    COLOCATION_PROFILES,
    CONFIG_MAPS,
    NODE_METRICS,
    NODES,
    PODS,
)
from koord_model.keys import BATCH_CPU, LABEL_QOS

from tests.apiserver.real_cluster import RealCluster
from tests.apiserver.real_node import ReviewingKubelet, administrator
from tests.support import kubepods, stress_ng
from tests.support.certificates import make_certificates
from tests.support.colocated_node import NAME, SLO_CONFIG, ClusterKoordlet, node_object
from tests.support.colocation import COLOCATION, PERIOD, PROFILE, QUOTA, plain
from tests.support.containerd import Containerd, why_not
from tests.support.kubepods import Kubepods
from tests.support.manager_program import NAMESPACE
from tests.support.pod_running import BoundPod, PodRunner
from tests.support.proxy import Proxy
from tests.support.waiting import until

_WHY_NOT = kubepods.why_not() or why_not() or stress_ng.why_not()

pytestmark = [
    pytest.mark.containerd,
    pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "-"),
]


@pytest.fixture
def groups() -> Iterator[Kubepods]:
    with Kubepods() as made:
        yield made


@asynccontextmanager
async def joined(
    cluster: RealCluster, containerd: Containerd, groups: Kubepods, api: Client
) -> AsyncIterator[PodRunner]:
    """This machine is a node of the cluster; koordlet runs there behind its runtime proxy."""
    folder = cluster.server.folder
    # What containers run is not root's.
    folder.chmod(0o755)
    certificates = make_certificates(folder / "kubelet")
    async with ReviewingKubelet(api, NAME, certificates) as kubelet:
        await api.create(NODES, node_object(kubelet.port))
        kubeconfig = cluster.server.kubeconfig("koordlet", cluster.token("koordlet"))
        proxy = Proxy(folder, containerd.address)
        koordlet = ClusterKoordlet(folder, proxy.hooks, kubeconfig, certificates.authority)
        try:
            await asyncio.to_thread(proxy.start)
            koordlet.launch()
            await asyncio.to_thread(proxy.wait_for_server, "koordlet")
            yield PodRunner(groups, kubelet, proxy.address)
            for program in (koordlet, proxy):
                assert await asyncio.to_thread(program.stop) == 0
                assert [one for one in program.events() if one["level"] == "error"] == []
        finally:
            # Shown by pytest if anything fails.
            for program in (koordlet, proxy):
                print(program.said[-6000:])
                program.close()
            await asyncio.to_thread(containerd.remove_all_pods)


async def run(api: Client, runner: PodRunner, pod: Object, *stress: str) -> BoundPod:
    """What the scheduler and the kubelet do."""
    meta = pod["metadata"]
    target = {"apiVersion": "v1", "kind": "Node", "name": NAME}
    binding = {"apiVersion": "v1", "kind": "Binding", "target": target}
    named = {"metadata": {"name": meta["name"], "namespace": meta["namespace"]}}
    await api.create(PODS, binding | named, meta["namespace"], meta["name"], "binding")
    bound = await api.get(PODS, meta["name"], meta["namespace"])
    started = await asyncio.to_thread(runner.start, bound, *stress)
    await runner.tell(api, bound, started)
    return started


async def mutated(api: Client) -> Object:
    """A plain pod, made once the manager knows of the profile."""
    found = await api.create(PODS, plain("crunch"), "default")
    if LABEL_QOS in found["metadata"]["labels"]:
        return found
    await api.delete(PODS, "crunch", "default")
    return {}


def _read(groups: Kubepods, group: str, files: Iterable[str]) -> dict[str, int]:
    return {file: int(groups.read(group, file)) for file in files}


async def test_once_round(cluster: RealCluster, containerd: Containerd, groups: Kubepods) -> None:
    cluster.namespace("default")
    await cluster.started("m1")
    async with (
        administrator(cluster) as api,
        joined(cluster, containerd, groups, api) as runner,
    ):
        data = {"colocation-config": json.dumps(COLOCATION)}
        await api.patch(CONFIG_MAPS, SLO_CONFIG, {"data": data}, NAMESPACE)

        async def offered() -> bool:
            allocatable = (await api.get(NODES, NAME))["status"]["allocatable"]
            return int(allocatable.get(BATCH_CPU, 0)) > 0

        await until(offered, "the node offers batch CPU")
        await api.create(COLOCATION_PROFILES, PROFILE)
        pod = await until(lambda: mutated(api), "a plain pod becomes a batch pod")
        assert pod["spec"]["priorityClassName"] == "koord-batch"
        crunch = await run(api, runner, pod, "--cpu", "1")
        expected = {
            "cpu.shares": 300 * 1024 // 1000,
            QUOTA: 1500 * PERIOD // 1000,
            "memory.limit_in_bytes": 128 << 20,
        }
        for group in (crunch.container_group, crunch.group):
            read = partial(_read, groups, group, expected)
            await until(lambda read=read: read() == expected, f"the cgroup {group}")

        async def told() -> bool:
            status = (await api.get(NODE_METRICS, NAME)).get("status") or {}
            pods = {one["name"]: one["priority"] for one in status.get("podsMetric", ())}
            return pods == {"crunch": "koord-batch"}

        await until(told, "it is reported")
