"""A cluster with the profile "everything": its programs are real, its nodes are played."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import anyio
import yaml
from anyio.abc import TaskStatus
from anyio.from_thread import start_blocking_portal
from koord_kube.client import Client
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import DEVICES, NODE_METRICS, NODE_TOPOLOGIES, NODES, PODS
from koord_model.keys import ANNOTATION_CPU_TOPOLOGY, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO
from koord_model.times import rfc3339

from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.played_cluster import play_kubelet
from tests.apiserver.real_cluster import RealCluster, webhooks_at
from tests.apiserver.scheduler_cluster import admin_client
from tests.chaos_whole.kubernetes import ControllerManager
from tests.deploy.manifests import NAMESPACE, containers, environ
from tests.deploy.test_profiles import kustomized
from tests.support import manager_program
from tests.support.kube_apiserver import KubeApiserver
from tests.support.listing import listed
from tests.support.scheduler_program import QUICK, SchedulerProgram

PROFILE = "everything"
CPUS, CARDS, NUMA_NODES = 32, 4, 2
CARDS_OF = {"gpu-1": CARDS, "node-7": 0, "node-8": 0, "node-9": 0}
"""Number of GPUs of each."""
_NO_PODS = {
    "target": {"kind": "Deployment|DaemonSet"},
    "patch": '{"$patch": "delete", "kind": "any", "metadata": {"name": "any"}}',
}
_CONTROLLERS = {
    "controllers": "deployment-controller,replicaset-controller,job-controller,"
    "serviceaccount-controller,garbage-collector-controller,disruption-controller"
}


@contextmanager
def example_cluster(server: KubeApiserver) -> Iterator[RealCluster]:
    """With the programs as the profile starts them, though the descheduler acts."""
    cluster = RealCluster(server, [_NO_PODS], PROFILE)
    cluster.install()
    with ExitStack() as programs:
        portal = programs.enter_context(start_blocking_portal())
        playing, _ = portal.start_task(_play_nodes, server)
        programs.callback(playing.cancel)
        controllers = ControllerManager(server, _CONTROLLERS)
        programs.callback(controllers.close)
        controllers.start()
        manager = _manager(cluster)
        programs.callback(manager.close)
        config = kustomized(PROFILE)["ConfigMap", NAMESPACE, "koord-scheduler-config"]["data"]
        scheduler = programs.enter_context(
            deployed_scheduler(cluster, config["scheduler-config.yaml"])
        )
        scheduler.start()
        descheduler = programs.enter_context(_descheduler(cluster))
        descheduler.start()
        manager.wait_until(lambda: manager.ready, "not ready")
        cluster.apply(webhooks_at(manager))
        for program in (scheduler, descheduler):
            program.wait_until(lambda program=program: program.ready and program.leads, "no leader")
        yield cluster
        assert not playing.done(), playing.exception()
    for program in (manager, scheduler, descheduler):
        print(f"---- {program.name}\n{program.said[-4000:]}")
        assert "Traceback" not in program.said
        assert "forbidden" not in program.said.lower()


def _flags(container: str) -> dict[str, str]:
    """The settings of a program's pod in the profile."""
    [found] = [one for _, one in containers(kustomized(PROFILE)) if one["name"] == container]
    return environ(found)


def _manager(cluster: RealCluster) -> manager_program.ManagerProgram:
    settings = _flags("manager")
    made = cluster.manager(
        "m1",
        *manager_program.QUICK,
        f"--feature-gates={settings['KOORD_MANAGER_FEATURE_GATES']}",
        f"--enable-node-metric-api={settings['KOORD_MANAGER_ENABLE_NODE_METRIC_API']}",
    )
    made.start()
    return made


@contextmanager
def _descheduler(cluster: RealCluster) -> Iterator[SchedulerProgram]:
    folder, network = cluster.server.folder, cluster.server.network
    data = kustomized(PROFILE)["ConfigMap", NAMESPACE, "koord-descheduler-config"]["data"]
    config = yaml.safe_load(data["descheduler-config.yaml"]) | {"dryRun": False}
    (folder / "descheduler.yaml").write_text(yaml.safe_dump(config))
    (folder / "profiles.yaml").write_text(data["scheduler-config.yaml"])
    made = SchedulerProgram(
        "d1",
        folder,
        cluster.server.kubeconfig("d1", cluster.token("koord-descheduler")),
        *QUICK,
        f"--feature-gates={_flags('descheduler')['KOORD_DESCHEDULER_FEATURE_GATES']}",
        f"--config={folder / 'descheduler.yaml'}",
        f"--scheduler-config={folder / 'profiles.yaml'}",
        host=network.address,
        inside=network.inside([]),
        module="koord_descheduler",
    )
    try:
        yield made
    finally:
        made.close()


def _topology(name: str) -> Object:
    part = CPUS // NUMA_NODES
    detail = [
        {"id": cpu, "core": cpu // 2, "node": cpu // part, "socket": 0} for cpu in range(CPUS)
    ]
    has = [
        {"name": key, "capacity": amount, "allocatable": amount, "available": amount}
        for key, amount in (("cpu", str(part)), ("memory", "64Gi"))
    ]
    zones = [
        {"name": f"node-{number}", "type": "Node", "resources": has} for number in range(NUMA_NODES)
    ]
    annotations = {ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": detail})}
    head = {"apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology"}
    metadata = {"name": name, "annotations": annotations}
    return {**head, "metadata": metadata, "topologyPolicies": ["None"], "zones": zones}


def _device(name: str, cards: int) -> Object:
    devices = [
        {
            "type": "gpu",
            "id": f"GPU-{minor}",
            "minor": minor,
            "health": True,
            "resources": {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "80Gi"},
            "topology": {
                "socketID": 0,
                "nodeID": minor * NUMA_NODES // cards,
                "pcieID": f"{minor}",
            },
        }
        for minor in range(cards)
    ]
    head = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device"}
    return {**head, "metadata": {"name": name}, "spec": {"devices": devices}}


async def _play_nodes(server: KubeApiserver, *, task_status: TaskStatus[None]) -> None:
    """Be the nodes' kubelets, and say once that little is used, until cancelled."""
    async with await admin_client(server) as client:
        for name, cards in CARDS_OF.items():
            await _put_node(client, name, cards)
        task_status.started()
        silent = {*CARDS_OF}
        while True:
            for pod in (await listed(client, PODS))[0]:
                await play_kubelet(client, pod)
            for metric in (await listed(client, NODE_METRICS))[0] if silent else ():
                name = metric["metadata"]["name"]
                status = {"status": _report()}
                await client.patch(NODE_METRICS, name, status, subresource="status")
                silent.discard(name)
            await anyio.sleep(0.2)


async def _put_node(client: Client, name: str, cards: int) -> None:
    """A Node, and what its koordlet says of its hardware."""
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": name}
    head = {"apiVersion": "v1", "kind": "Node"}
    await client.create(NODES, {**head, "metadata": {"name": name, "labels": labels}})
    amounts = {"cpu": str(CPUS), "memory": "128Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "Played", "message": ""}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    await client.patch(NODES, name, {"status": status}, subresource="status")
    await client.patch(NODES, name, {"spec": {"taints": None}})
    await client.create(NODE_TOPOLOGIES, _topology(name))
    if cards:
        await client.create(DEVICES, _device(name, cards))


def _report() -> Mapping[str, Any]:
    usage = {"resources": {"cpu": "1", "memory": "2Gi"}}
    metric = {"nodeUsage": usage, "systemUsage": usage}
    return {"updateTime": rfc3339(time.time()), "nodeMetric": metric, "podsMetric": []}
