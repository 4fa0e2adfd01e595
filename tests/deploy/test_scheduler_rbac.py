"""The scheduler's account may do what the program asks for, and no more."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import replace
from typing import Any

import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.protocol.resources import (
    CLUSTER_NETWORK_TOPOLOGIES,
    COMPOSITE_GROUPS,
    DEVICE_CLASSES,
    DEVICES,
    ELASTIC_QUOTAS,
    NODE_TOPOLOGIES,
    NODES,
    POD_GROUPS,
    PODS,
    RESERVATIONS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SCHEDULING_GROUPS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
)
from koord_model.keys import (
    ANNOTATION_BIND_GANG_COUNT,
    ANNOTATION_BIND_GANG_GROUP,
    ANNOTATION_CPU_TOPOLOGY,
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_RESERVATION_ALLOCATED,
    ANNOTATION_RESOURCE_STATUS,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    LABEL_GPU_VENDOR,
    LABEL_POD_GROUP,
    LABEL_QUOTA_NAME,
)
from koord_scheduler.config.scheduler_config import read_scheduler_config, scheduler_config
from koord_scheduler.plugins.dynamic_resources.objects import EXTENDED_RESOURCE_CLAIM
from koord_scheduler.program.program import SchedulerProgram
from koord_scheduler.program.settings import SchedulerSettings

from tests.deploy.manifests import NAMESPACE
from tests.deploy.rights import Right, missing, rights, unused
from tests.support.kube_api import USUAL, KubeApi
from tests.support.processes import PATIENCE
from tests.support.quota_cluster import quota_object
from tests.support.reservations import reservation
from tests.support.waiting import until

ACCOUNT, COMPONENTS = "koord-scheduler", ("scheduler",)
SETTINGS = SchedulerSettings(
    port=0,
    leader_elect_retry_period=0.1,
    leader_elect_resource_namespace=NAMESPACE,
    leader_elect_resource_name="koord-scheduler",
    pod_name="s1",
)
RESOURCE = "example.com/gpu"
CONFIG = read_scheduler_config(
    """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {multiPoint: {enabled: [{name: LoadAwareScheduling}]}}
"""
)
"""With all plugins that read something."""


def _pod(name: str, cpu: str, claim: str = "", **more: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "default-scheduler", "containers": [container], **more}
    if claim:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return {"metadata": {"name": name}, "spec": spec}


def _put_storage(api: KubeApi) -> None:
    """A claim for which there is a volume, and one whose volume is made for its node."""
    for claim, provisioner in {"old": "kubernetes.io/no-provisioner", "new": "csi.example"}.items():
        kind = {"metadata": {"name": claim}, "provisioner": provisioner}
        api.put(STORAGE_CLASSES, {**kind, "volumeBindingMode": "WaitForFirstConsumer"})
        size = {"accessModes": ["ReadWriteOnce"], "storageClassName": claim}
        requests = {"resources": {"requests": {"storage": "1Gi"}}}
        given = {"metadata": {"name": claim}, "spec": {**size, **requests}}
        api.put(VOLUME_CLAIMS, {**given, "status": {"phase": "Pending"}}, "shop")
        capacity = {"capacity": {"storage": "1Gi"}, "csi": {"driver": "d", "volumeHandle": claim}}
        if claim == "old":
            volume = {"metadata": {"name": "pv"}, "spec": {**size, **capacity}}
            api.put(VOLUMES, {**volume, "status": {"phase": "Available"}})


def _put_devices(api: KubeApi) -> None:
    """A claim to one device of the node, and one that is left of an attempt to place a pod."""
    backed = {"extendedResourceName": RESOURCE}
    api.put(DEVICE_CLASSES, {"metadata": {"name": "gpus"}, "spec": backed})
    names = [{"name": "gpu0"}, {"name": "gpu1"}]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": "n1", "pool": pool, "devices": names}
    api.put(RESOURCE_SLICES, {"metadata": {"name": "n1"}, "spec": spec})
    exactly = {"deviceClassName": "gpus", "allocationMode": "ExactCount", "count": 1}
    devices = {"requests": [{"name": "gpu", "exactly": exactly}]}
    api.put(RESOURCE_CLAIMS, {"metadata": {"name": "gpu"}, "spec": {"devices": devices}}, "shop")
    resources = {"requests": {"cpu": "0", RESOURCE: "1"}}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    uid = api.put(PODS, _pod("plain", "0", containers=containers), "shop")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "plain", "uid": uid, "controller": True}
    of_pod = {"annotations": {EXTENDED_RESOURCE_CLAIM: "true"}, "ownerReferences": [owner]}
    api.put(RESOURCE_CLAIMS, {"metadata": {"name": "old", **of_pod}, "spec": {}}, "shop")


async def test_what_the_scheduler_asks_is_what_it_may() -> None:
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    limits = Limits(qps=0, answer=PATIENCE)
    async with KubeApi() as api, Client(Cluster(api.url), limits) as client:
        api.streams_lists = False  # where it does, nobody lists
        api.put(NODES, {"metadata": {"name": "n1"}, "status": {"allocatable": amounts}})
        api.put(PODS, _pod("fits", "1", priority=20), "shop")
        api.put(PODS, _pod("waits", "8"), "shop")
        _put_storage(api)
        for claim in ("old", "new"):
            api.put(PODS, _pod(claim, "0", claim), "shop")
        _put_devices(api)
        claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
        api.put(PODS, _pod("training", "0", resourceClaims=claims), "shop")
        api.put(PODS, _pod("victim", "3", nodeName="n1", priority=0), "shop")
        api.put(PODS, _pod("important", "3", priority=10), "shop")
        # Whether the pod has its node has to be looked up.
        api.fail(verb="create", plural="pods", status=500)
        api.fail(verb="patch", plural="resourceclaims", status=500)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(SchedulerProgram(SETTINGS, CONFIG, client, "s1_0").serve())
            await until(lambda: api.count("create", "events") >= 2, "Events of both pods")
            await until(lambda: api.count("patch", "pods") > 0, "a condition")
            await until(lambda: api.count("get", "pods") > 0, "a look-up after a binding")
            await until(lambda: api.count("delete", "pods") > 0, "a victim")
            await until(lambda: api.count("patch", "persistentvolumes") > 0, "a volume")
            await until(lambda: api.count("patch", "persistentvolumeclaims") > 0, "a claim")
            await until(lambda: api.count("get", "resourceclaims") > 0, "a look-up of a claim")
            await until(lambda: api.count("patch", "resourceclaims") > 4, "devices of claims")
            await until(lambda: api.count("create", "resourceclaims") > 0, "a claim of a pod")
            await until(lambda: api.count("delete", "resourceclaims") > 0, "no other claim of it")
            os.kill(os.getpid(), signal.SIGTERM)
        asked = rights(api.asked)
    assert missing(asked, ACCOUNT, COMPONENTS) == []
    # What the API server asks itself about writes of who may use a claim.
    of_itself = {("resource.k8s.io", "resourceclaims/binding", "patch")}
    assert unused(asked, ACCOUNT, COMPONENTS) == of_itself
    assert missing(asked, ACCOUNT) == sorted(asked), "nothing is allowed without the component"


async def test_cpus_of_pods_are_a_right_of_its_own() -> None:
    enabled = {"multiPoint": {"enabled": [{"name": "NodeNUMAResource"}]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = scheduler_config({**kind, "profiles": [{"plugins": enabled}]})
    detail = {"detail": [{"id": cpu, "core": cpu, "socket": 0, "node": 0} for cpu in range(4)]}
    annotations = {ANNOTATION_CPU_TOPOLOGY: json.dumps(detail)}
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    limits = Limits(qps=0, answer=PATIENCE)
    async with KubeApi() as api, Client(Cluster(api.url), limits) as client:
        api.streams_lists = False
        api.put(NODES, {"metadata": {"name": "n1"}, "status": {"allocatable": amounts}})
        api.put(NODE_TOPOLOGIES, {"metadata": {"name": "n1", "annotations": annotations}})
        pod = _pod("a", "2", priority=9500)
        pod["metadata"]["labels"] = {"koordinator.sh/qosClass": "LSR"}
        api.put(PODS, pod, "shop")
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(SchedulerProgram(SETTINGS, config, client, "s1_0").serve())
            await until(lambda: api.count("create", "pods") > 0, "a binding")
            os.kill(os.getpid(), signal.SIGTERM)
        written = api.get(PODS, "a", "shop")["metadata"]["annotations"]
        asked = rights(api.asked)
    assert json.loads(written[ANNOTATION_RESOURCE_STATUS])["cpuset"] == "0-1"
    assert missing(asked, ACCOUNT, (*COMPONENTS, "numa")) == []
    assert {right.resource for right in missing(asked, ACCOUNT, COMPONENTS)} == {
        "noderesourcetopologies",
        "pods",
    }


async def test_reservations_are_a_right_of_its_own() -> None:
    enabled = {"multiPoint": {"enabled": [{"name": "Reservation", "weight": 5000}]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = scheduler_config({**kind, "profiles": [{"plugins": enabled}]})
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    limits = Limits(qps=0, answer=PATIENCE)
    async with KubeApi() as api, Client(Cluster(api.url), limits) as client:
        api.streams_lists = False
        api.put(NODES, {"metadata": {"name": "n1"}, "status": {"allocatable": amounts}})
        for name, cpus in (("fits", "3"), ("waits", "9")):
            api.put(RESERVATIONS, reservation(name, cpus, owners=[{}]))
        api.fail(verb="patch", plural="reservations", status=500)  # what became of it?
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(SchedulerProgram(SETTINGS, config, client, "s1_0").serve())
            await until(lambda: phase(api, "fits") == "Available", "a node")
            await until(lambda: bool(conditions(api, "waits")), "a condition")
            api.put(PODS, _pod("owner", "2"), "shop")
            await until(lambda: api.count("create", "pods") > 0, "a binding")
            await until(lambda: api.count("create", "events") > 2, "Events of all three")
            os.kill(os.getpid(), signal.SIGTERM)
        fits, waits = api.get(RESERVATIONS, "fits"), conditions(api, "waits")
        written = api.get(PODS, "owner", "shop")["metadata"]["annotations"]
        asked = rights(api.asked)
    assert fits["status"]["nodeName"] == "n1"
    assert fits["status"]["allocatable"] == {"cpu": "3"}
    ready = {one["type"]: one["status"] for one in fits["status"]["conditions"]}
    assert ready == {"Scheduled": "True", "Ready": "True"}
    [unscheduled] = waits
    assert (unscheduled["status"], unscheduled["reason"]) == ("False", "Unschedulable")
    assert "1 Insufficient cpu" in unscheduled["message"]
    allocated = json.loads(written[ANNOTATION_RESERVATION_ALLOCATED])
    assert allocated == {"name": "fits", "uid": fits["metadata"]["uid"]}
    assert missing(asked, ACCOUNT, (*COMPONENTS, "reservations")) == []
    assert {right.resource for right in missing(asked, ACCOUNT, COMPONENTS)} == {
        "pods",
        "reservations",
        "reservations/status",
    }


async def test_groups_of_kubernetes_are_read_and_their_status_is_written() -> None:
    enabled = {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = scheduler_config({**kind, "profiles": [{"plugins": enabled}]})
    settings = replace(SETTINGS, feature_gates=("CompositePodGroup=true",))
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    groups, limits = SCHEDULING_GROUPS[0], Limits(qps=0, answer=PATIENCE)
    served = USUAL | {groups, COMPOSITE_GROUPS}
    async with KubeApi(installed=served) as api, Client(Cluster(api.url), limits) as client:
        api.streams_lists = False
        api.put(NODES, {"metadata": {"name": "n1"}, "status": {"allocatable": amounts}})
        policy = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
        api.put(COMPOSITE_GROUPS, {"metadata": {"name": "all"}, "spec": policy}, "shop")
        for name in ("a", "b"):
            spec = {"schedulingPolicy": {"gang": {"minCount": 1}}}
            part = {"parentCompositePodGroupName": "all"}
            api.put(groups, {"metadata": {"name": name}, "spec": spec | part}, "shop")
            pod = _pod(name, "1")
            pod["spec"]["schedulingGroup"] = {"podGroupName": name}
            api.put(PODS, pod, "shop")
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(SchedulerProgram(settings, config, client, "s1_0").serve())

            def conditions(name: str) -> list[tuple[str, str, str]]:
                found = api.get(groups, name, "shop").get("status", {}).get("conditions", ())
                return [(one["type"], one["status"], one["reason"]) for one in found]

            reported = [("PodGroupInitiallyScheduled", "True", "Scheduled")]
            await until(lambda: conditions("a") == conditions("b") == reported, "both conditions")
            os.kill(os.getpid(), signal.SIGTERM)
        asked = rights(api.asked)
    assert missing(asked, ACCOUNT, (*COMPONENTS, "gangs")) == []
    assert {right.resource for right in missing(asked, ACCOUNT, COMPONENTS)} == {
        "podgroups",
        "podgroups/status",
        "compositepodgroups",
    }


async def test_gangs_are_a_right_of_their_own() -> None:
    enabled = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = scheduler_config({**kind, "profiles": [{"plugins": enabled}]})
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    limits = Limits(qps=0, answer=PATIENCE)
    async with KubeApi() as api, Client(Cluster(api.url), limits) as client:
        api.streams_lists = False
        api.put(NODES, {"metadata": {"name": "n1"}, "status": {"allocatable": amounts}})
        api.put(POD_GROUPS, {"metadata": {"name": "g"}, "spec": {"minMember": 2}}, "shop")
        for name in ("a", "b"):
            pod = _pod(name, "1")
            pod["metadata"]["labels"] = {LABEL_POD_GROUP: "g"}
            api.put(PODS, pod, "shop")
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(SchedulerProgram(SETTINGS, config, client, "s1_0").serve())

            def stands() -> str:
                return str(api.get(POD_GROUPS, "g", "shop").get("status", {}).get("phase"))

            await until(lambda: stands() == "Scheduled", "both pods on their node")
            for name in ("a", "b"):  # they end, and the scheduler does not see them any more
                ended = api.get(PODS, name, "shop")
                api.put(PODS, ended | {"status": {"phase": "Succeeded"}}, "shop")
            await until(lambda: stands() == "Finished", "the end of both")
            os.kill(os.getpid(), signal.SIGTERM)
        status = api.get(POD_GROUPS, "g", "shop")["status"]
        written = api.get(PODS, "a", "shop")["metadata"]["annotations"]
        asked = rights(api.asked)
    assert (status["scheduled"], status["succeeded"]) == (2, 2)
    assert written[ANNOTATION_BIND_GANG_GROUP] == "shop/g"
    assert written[ANNOTATION_BIND_GANG_COUNT] == "2"
    assert missing(asked, ACCOUNT, (*COMPONENTS, "gangs")) == []
    assert {right.resource for right in missing(asked, ACCOUNT, COMPONENTS)} == {"podgroups"}


async def test_quotas_are_a_right_of_its_own() -> None:
    given = {"monitorAllQuotas": True, "delayEvictTime": "0s", "revokePodInterval": "100ms"}
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": "ElasticQuota"}]}},
        "pluginConfig": [{"name": "ElasticQuota", "args": given}],
    }
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = scheduler_config({**kind, "profiles": [profile]})
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    limits = Limits(qps=0, answer=PATIENCE)
    team = {LABEL_QUOTA_NAME: "team"}
    served = KubeApi(installed=USUAL | {ELASTIC_QUOTAS})
    async with served as api, Client(Cluster(api.url), limits) as client:
        api.streams_lists = False
        api.put(NODES, {"metadata": {"name": "n1"}, "status": {"allocatable": amounts}})
        api.put(ELASTIC_QUOTAS, quota_object("team", {"cpu": "2"}, {}), "q")
        for name, node in (("runs", "n1"), ("goes", "n1"), ("waits", "")):
            pod = _pod(name, "2", nodeName=node, priority=len(node + name))
            api.put(PODS, {**pod, "metadata": {"name": name, "labels": team}}, "shop")
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(SchedulerProgram(SETTINGS, config, client, "s1_0").serve())
            await until(lambda: "status" in api.get(ELASTIC_QUOTAS, "team", "q"), "what is used")
            await until(lambda: bool(_waits(api)), "a condition")
            await until(
                lambda: any(one.resource == "pods/eviction" for one in rights(api.asked)),
                "an eviction",
            )
            os.kill(os.getpid(), signal.SIGTERM)
        created = [one["metadata"]["name"] for one in api.objects.values()]
        asked, waits = rights(api.asked), _waits(api)
    assert "koordinator-default-quota" in created
    assert "Insufficient quotas, quotaName: team, runtime: cpu:2" in waits
    assert missing(asked, ACCOUNT, (*COMPONENTS, "quotas")) == []
    assert {right.resource for right in missing(asked, ACCOUNT, COMPONENTS)} == {
        "elasticquotas",
        "pods/eviction",
    }


def _waits(api: KubeApi) -> str:
    """Why the pod "waits" has no node, once it says so."""
    conditions = api.get(PODS, "waits", "shop").get("status", {}).get("conditions", [])
    return "".join(one["message"] for one in conditions if one["type"] == "PodScheduled")


async def test_the_network_topology_is_a_right_of_its_own() -> None:
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    enabled = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
    args = [{"name": "Coscheduling", "args": {"awareNetworkTopology": True}}]
    config = scheduler_config({**kind, "profiles": [{"plugins": enabled, "pluginConfig": args}]})
    layers = [
        {"topologyLayer": "rack", "labelKey": ["rack"]},
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "rack"},
    ]
    topology = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": layers}}
    limits = Limits(qps=0, answer=PATIENCE)
    async with KubeApi() as api, Client(Cluster(api.url), limits) as client:
        api.streams_lists = False
        api.put(NODES, {"metadata": {"name": "n1", "labels": {"rack": "r1"}}})
        api.put(CLUSTER_NETWORK_TOPOLOGIES, topology)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(SchedulerProgram(SETTINGS, config, client, "s1_0").serve())

            def domains() -> int:
                found = api.get(CLUSTER_NETWORK_TOPOLOGIES, "default")
                return len(found.get("status", {}).get("detailStatus", ()))

            await until(lambda: domains() == 2, "the cluster and its rack")
            os.kill(os.getpid(), signal.SIGTERM)
        asked = rights(api.asked)
    components = (*COMPONENTS, "gangs", "network-topology")
    assert missing(asked, ACCOUNT, components) == []
    needed = {right.resource for right in missing(asked, ACCOUNT, (*COMPONENTS, "gangs"))}
    assert needed == {"clusternetworktopologies", "clusternetworktopologies/status"}


def phase(api: KubeApi, name: str) -> str:
    return str(api.get(RESERVATIONS, name)["status"].get("phase"))


def conditions(api: KubeApi, name: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = api.get(RESERVATIONS, name)["status"].get("conditions", [])
    return found


async def test_devices_of_pods_are_a_right_of_its_own() -> None:
    enabled = {"multiPoint": {"enabled": [{"name": "DeviceShare"}, {"name": "Reservation"}]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = scheduler_config({**kind, "profiles": [{"plugins": enabled}]})
    resource = "koordinator.sh/gpu"
    has = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
    card = {"type": "gpu", "minor": 0, "id": "GPU-0", "health": True, "resources": has}
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110", resource: "100"}
    limits = Limits(qps=0, answer=PATIENCE)
    async with KubeApi() as api, Client(Cluster(api.url), limits) as client:
        api.streams_lists = False
        api.put(NODES, {"metadata": {"name": "n1"}, "status": {"allocatable": amounts}})
        api.put(DEVICES, {"metadata": {"name": "n1"}, "spec": {"devices": [card]}})
        pod, reserved = _pod("a", "2"), reservation("r", "1", owners=[{}])
        for spec in (pod["spec"], reserved["spec"]["template"]["spec"]):
            spec["containers"][0]["resources"]["requests"][resource] = "50"
        api.put(PODS, pod, "shop")
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(SchedulerProgram(SETTINGS, config, client, "s1_0").serve())
            await until(lambda: api.count("create", "pods") > 0, "a binding")
            api.put(RESERVATIONS, reserved)
            await until(lambda: phase(api, "r") == "Available", "a node")
            os.kill(os.getpid(), signal.SIGTERM)
        written = api.get(PODS, "a", "shop")["metadata"]["annotations"]
        kept = api.get(RESERVATIONS, "r")["metadata"]["annotations"]
        asked = rights(api.asked)
    for one in (written, kept):
        [given] = json.loads(one[ANNOTATION_DEVICE_ALLOCATED])["gpu"]
        assert (given["id"], given["resources"]["koordinator.sh/gpu-core"]) == ("GPU-0", "50")
    assert missing(asked, ACCOUNT, (*COMPONENTS, "reservations", "device-share")) == []
    assert Right("patch", "scheduling.koordinator.sh", "reservations", "", "r") in asked
    assert {right.resource for right in missing(asked, ACCOUNT, COMPONENTS)} == {
        *("configmaps", "devices", "pods", "reservations", "reservations/status"),
    }


async def test_locks_for_device_plugins_are_a_right_of_its_own() -> None:
    enabled = {"multiPoint": {"enabled": [{"name": "DeviceShare"}]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = scheduler_config({**kind, "profiles": [{"plugins": enabled}]})
    amounts = {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"}
    card = {"type": "gpu", "minor": 0, "id": "C-0", "health": True, "resources": amounts}
    has = {"cpu": "4", "memory": "16Gi", "pods": "110", GPU_CORE: "100", GPU_MEMORY: "16Gi"}
    settings = replace(SETTINGS, feature_gates=("DevicePluginAdaption=true", "Other=true"))
    async with KubeApi() as api, Client(Cluster(api.url), Limits(qps=0, answer=PATIENCE)) as client:
        api.streams_lists = False
        api.put(NODES, {"metadata": {"name": "n1"}, "status": {"allocatable": has}})
        metadata = {"name": "n1", "labels": {LABEL_GPU_VENDOR: "metax"}}
        api.put(DEVICES, {"metadata": metadata, "spec": {"devices": [card]}})
        pod = _pod("a", "2")
        pod["spec"]["containers"][0]["resources"]["requests"] |= {GPU_CORE: "50", GPU_MEMORY: "8Gi"}
        api.put(PODS, pod, "shop")
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(SchedulerProgram(settings, config, client, "s1_0").serve())
            await until(lambda: api.count("create", "pods") > 0, "a binding")
            os.kill(os.getpid(), signal.SIGTERM)
        written = api.get(PODS, "a", "shop")["metadata"]["annotations"]
        locked = api.get(NODES, "n1")["metadata"]["annotations"]
        asked = rights(api.asked)
    [[given]] = json.loads(written["metax-tech.com/gpu-devices-allocated"])
    assert given == {"uuid": "C-0", "compute": 50, "vRam": 8192}
    assert locked["hami.io/mutex.lock"].endswith(",shop,a")
    assert missing(asked, ACCOUNT, (*COMPONENTS, "device-share", "device-plugins")) == []
    assert set(missing(asked, ACCOUNT, (*COMPONENTS, "device-share"))) == {
        Right("get", "", "nodes", "", "n1"),
        Right("patch", "", "nodes", "", "n1"),
    }


@pytest.mark.parametrize(
    "wanted",
    [
        Right("create", "", "bindings", "shop"),
        Right("create", "", "pods/eviction", "shop", "a"),
        Right("patch", "", "pods", "shop", "a"),
        Right("update", "", "pods/status", "shop", "a"),
        Right("patch", "", "nodes", "", "n1"),
        Right("delete", "", "persistentvolumeclaims", "shop", "a"),
        Right("get", "", "secrets", NAMESPACE, "a"),
        Right("update", "coordination.k8s.io", "leases", NAMESPACE, "koordinator-manager"),
        Right("update", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler"),
        Right("create", "coordination.k8s.io", "leases", "kube-system"),
    ],
)
def test_what_it_does_not_ask_it_may_not(wanted: Right) -> None:
    assert missing([wanted], ACCOUNT, COMPONENTS) == [wanted]
