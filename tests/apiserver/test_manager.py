"""koord-manager beside a real API server, with the rights of deploy/base/rbac."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from typing import Any

from koord_demo.programs import console_script
from koord_model.times import rfc3339

from tests.apiserver.real_cluster import RealCluster, node, pod
from tests.support.manager_program import NAMESPACE, QUICK
from tests.support.waiting import until

BATCH = {"kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"}
WHY = "node.koordinator.sh/batch-resource-why"


async def test_from_nothing(cluster: RealCluster) -> None:
    cluster.apply(node("n1"))
    manager = await cluster.started("m1")
    await until(lambda: manager.leads, "it leads")
    await until(lambda: cluster.names("nodemetrics") == {"n1"}, "NodeMetrics")
    await until(lambda: cluster.names("nodeslos") == {"n1"}, "NodeSLOs")
    await until(lambda: cluster.names("mutatingwebhookconfigurations") != set(), "webhooks")
    cluster.kubectl("delete", "node", "n1")
    await until(lambda: cluster.names("nodemetrics") == set(), "no NodeMetrics")
    await until(lambda: cluster.names("nodeslos") == set(), "no NodeSLOs")


async def test_usage_becomes_what_nodes_offer(cluster: RealCluster) -> None:
    await cluster.started("m1")
    await _busy(cluster, "n2", 1)
    cluster.apply(_zones("n2"), _device("n2"))
    await _offers(cluster, "n2", cpu="5k", memory="64Gi")
    assert cluster.offers("n2")["kubernetes.io/mid-cpu"] == "2k"
    why = cluster.get("node", "n2")["metadata"]["annotations"][WHY]
    assert why.startswith("cpu 5 cores of 10 cores - 4 cores margin")
    await until(lambda: cluster.offers("n2").get("koordinator.sh/gpu-core") == "100", "its GPU")
    await until(lambda: _zone_offers(cluster, "n2") == {"5k"}, "zones")
    assert cluster.get("nodeslo", "n2")["spec"]["resourceUsedThresholdWithBE"]["enable"] is True

    await cluster.report("n2", "shop", 3)
    await _offers(cluster, "n2", cpu="3k")
    await until(lambda: _zone_offers(cluster, "n2") == {"3k"}, "zones")
    kinds = ("node", "nodemetric", "nodeslo", "noderesourcetopology")
    before = [_version(cluster, one, "n2") for one in kinds]
    await asyncio.sleep(3)
    assert [_version(cluster, one, "n2") for one in kinds] == before, (
        "what is as it should be is not written again"
    )

    good = cluster.get("cm", "slo-controller-config", "-n", NAMESPACE)["data"]
    _configure(cluster, **{"colocation-config": '{"enable": false}'})
    await until(lambda: not any("/batch" in one or "/mid" in one for one in cluster.offers("n2")))
    assert WHY not in cluster.get("node", "n2")["metadata"]["annotations"]
    await until(lambda: _zone_offers(cluster, "n2") == {"0"}, "zones")
    _configure(cluster, **good)
    await _offers(cluster, "n2", cpu="3k")

    reclaimed = {"resource.katalyst.kubewharf.io/reclaimed_millicpu": "4k"}
    cluster.status("node", "n2", {"capacity": reclaimed, "allocatable": reclaimed})
    await until(lambda: cluster.offers("n2").keys().isdisjoint(BATCH), "never both names")
    assert "stop it first" in cluster.get("node", "n2")["metadata"]["annotations"][WHY]
    assert cluster.offers("n2").items() >= reclaimed.items(), "what is another's stays"
    gone = dict.fromkeys(reclaimed)
    cluster.status("node", "n2", {"capacity": gone, "allocatable": gone})
    await _offers(cluster, "n2", cpu="3k")


async def test_somebody_asks_why(cluster: RealCluster) -> None:
    """As a user with the role for it, of the leader's pod, through the API server."""
    manager = cluster.manager("m1")
    manager.port = 8080
    manager.start()
    await until(lambda: manager.ready)
    await _busy(cluster, "n3", 1)
    await _offers(cluster, "n3", cpu="5k")
    deployment = cluster.get("deployment", "koord-manager", "-n", NAMESPACE)
    template = deployment["spec"]["template"]
    meta = {"name": "m1", "namespace": NAMESPACE}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]})
    addresses = {"podIP": manager.host, "podIPs": [{"ip": manager.host}]}
    cluster.status("pod", "m1", {"phase": "Running", **addresses}, NAMESPACE)
    cluster.kubectl("create", "sa", "curious", "-n", NAMESPACE)
    file = cluster.server.kubeconfig("curious", cluster.token("curious"))
    command = [console_script("koordctl"), "why", "batch-cpu", "n3", f"--kubeconfig={file}"]

    def ask() -> tuple[int, str, str]:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    code, _, said = await asyncio.to_thread(ask)
    assert code == 1
    assert 'leases.coordination.k8s.io "koordinator-manager" is forbidden' in said
    cluster.kubectl(
        *("create", "rolebinding", "curious", "-n", NAMESPACE),
        *("--role=koordinator-why", f"--serviceaccount={NAMESPACE}:curious"),
    )
    await until(lambda: ask()[0] == 0, "the role counts")
    assert ["offered", "5", "cores"] in [line.split() for line in ask()[1].splitlines()]


async def test_a_resize_outlives_its_leader_and_is_undone(cluster: RealCluster) -> None:
    flags = (*QUICK, "--feature-gates=PodResize=true", "--controllers=*,-recommendation")
    half = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}}
    whole = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    _shop(cluster, whole, half["requests"])

    def shop_pod() -> dict[str, Any]:
        return cluster.get("pod", "shop-0", "-n", "shop")

    def resources() -> Any:
        return shop_pod()["spec"]["containers"][0]["resources"]

    def events() -> set[str]:
        return {event["reason"] for event in cluster.get("events", "-n", "shop")["items"]}

    managers = [cluster.manager(name, *flags) for name in ("m7", "m8")]
    for manager in managers:
        await asyncio.to_thread(manager.start)
    await until(lambda: "ResizeShadow" in events(), "what it would do")
    assert resources() == whole
    # No webhook is there: it writes down what it is about to do, and cannot do it.
    cluster.apply(_no_resizes())
    policy = '{"mode": "inPlace", "shadow": false}'
    annotation = f"analysis.koordinator.sh/pykoord-resize={policy}"
    cluster.kubectl("annotate", "recommendation", "shop", "-n", "shop", annotation, "--overwrite")
    record = "analysis.koordinator.sh/pykoord-resized"
    await until(lambda: record in shop_pod()["metadata"].get("annotations", {}), "the record")
    await until(lambda: all(manager.ready for manager in managers), "the other one")
    first, second = sorted(managers, key=lambda manager: not manager.leads)
    first.kill()
    cluster.kubectl("delete", "validatingwebhookconfiguration", "no-resizes")
    assert resources() == whole
    await until(lambda: resources() == half, "the next one goes on")
    command = [console_script("koordctl"), "why", "resize", "shop/shop"]
    command += [f"--address={second.host}:{second.port}"]

    def why() -> str:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    assert "Recommendation shop/shop" in why()
    ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": rfc3339(time.time() + 1)}
    _reported(cluster, half, lastState={"terminated": ended})
    undone = {**whole, "requests": {"cpu": "500m", "memory": "1Gi"}}
    await until(lambda: resources() == undone, "it ran out of memory")
    await until(lambda: events() >= {"Resized", "ResizeUndone"}, "Events")
    found = cluster.get("recommendation", "shop", "-n", "shop")["metadata"]["annotations"]
    assert "analysis.koordinator.sh/pykoord-resize-undone" in found
    cluster.kubectl("delete", "recommendation", "shop", "-n", "shop")
    _reported(cluster, undone)
    await _autoscaler(cluster, {"cpu": "250m", "memory": "1Gi"})
    decided = "VerticalPodAutoscaler shop/shop"
    await until(lambda: decided in why(), "VPA's definition came while it ran")
    assert "c: cpu 500m → 250m: its last resize is being watched" in why()


def _shop(cluster: RealCluster, resources: Any, recommended: Any) -> None:
    """A Deployment that is settled, its pod, and a Recommendation in shadow mode."""
    cluster.namespace("shop")
    cluster.ready_node("n7", {"cpu": "8", "memory": "8Gi", "pods": "110"})
    labels = {"app": "shop"}
    containers = [{"name": "c", "image": "i"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    meta = {"name": "shop", "namespace": "shop"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop-5", "uid": "5"}
    made = pod("shop-0", "shop", {"nodeName": "n7"}, resources)
    made["metadata"] |= {
        "labels": {**labels, "pod-template-hash": "5"},
        "ownerReferences": [{**owner, "controller": True}],
    }
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    policy = {"analysis.koordinator.sh/pykoord-resize": '{"mode": "inPlace"}'}
    cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        },
        made,
        {
            "apiVersion": "analysis.koordinator.sh/v1alpha1",
            "kind": "Recommendation",
            "metadata": {**meta, "annotations": policy},
            "spec": {"target": {"type": "workload", "workload": workload}},
        },
    )
    numbers = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
    settled = {"observedGeneration": 1, **dict.fromkeys(numbers, 1)}
    cluster.status("deployment", "shop", settled, "shop")
    _reported(cluster, resources)
    advice = {"containerStatuses": [{"containerName": "c", "resources": recommended}]}
    status = {"podStatus": advice, "updateTime": rfc3339(time.time())}
    cluster.status("recommendation", "shop", status, "shop")


async def _autoscaler(cluster: RealCluster, target: Any) -> None:
    """A VerticalPodAutoscaler of the shop, of a definition with VPA's names and any fields."""
    group, any_fields = "autoscaling.k8s.io", {"x-kubernetes-preserve-unknown-fields": True}
    names = {"kind": "VerticalPodAutoscaler", "plural": "verticalpodautoscalers"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", **any_fields}},
        "subresources": {"status": {}},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }
    # Groups of *.k8s.io are protected: this is what VPA's own definition says.
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/63797"}
    definition["metadata"] |= {"annotations": approved}
    policy = {"analysis.koordinator.sh/pykoord-resize": '{"mode": "inPlace", "shadow": false}'}
    made = {
        "apiVersion": f"{group}/v1",
        "kind": names["kind"],
        "metadata": {"name": "shop", "namespace": "shop", "annotations": policy},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
            "recommenders": [{"name": "pykoord"}],
            "updatePolicy": {"updateMode": "Off"},
        },
    }
    cluster.apply(definition)
    served = ("wait", "--for=condition=Established", f"crd/{definition['metadata']['name']}")
    cluster.kubectl(*served, "--timeout=30s")
    cluster.apply(made)
    advice = {"containerRecommendations": [{"containerName": "c", "target": target}]}
    cluster.status(names["plural"], "shop", {"recommendation": advice}, "shop")


def _reported(cluster: RealCluster, resources: Any, **more: Any) -> None:
    """The pod's status as the kubelet writes it, with the resources that it has applied."""
    container = {"name": "c", "image": "i", "imageID": "i", "ready": True, "restartCount": 0}
    running = {"running": {"startedAt": rfc3339(time.time())}}
    container |= {"state": running, "resources": resources, **more}
    status = {"phase": "Running", "containerStatuses": [container]}
    cluster.status("pod", "shop-0", status, "shop")


def _no_resizes() -> dict[str, Any]:
    """A webhook for /resize at an address where nobody is."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"]}
    webhook = {
        "name": "resizes.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{**rule, "resources": ["pods/resize"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "no-resizes"},
        "webhooks": [webhook],
    }


async def test_an_unhealthy_node_is_emptied_though_its_leader_is_killed(
    cluster: RealCluster,
) -> None:
    rule = {"afterSeconds": 0, "evict": "all"}
    rules = json.dumps({"conditions": {"KernelDeadlock": rule}})
    _configure(cluster, **{"node-backstop-config": rules})
    cluster.namespace("crowd")
    cluster.apply(node("u1"), *(_owned(name) for name in ("app", "be-1", "be-2")))
    cluster.status("node", "u1", {"conditions": [{"type": "KernelDeadlock", "status": "True"}]})
    theirs = cluster.get("node", "u1")["spec"]["taints"]
    gated = (*QUICK, "--feature-gates=NodeBackstop=true")
    first, second = cluster.manager("m1", *gated), cluster.manager("m2", *gated)
    first.start()
    await until(lambda: first.ready and first.leads, "it leads")
    second.start()
    await until(lambda: _leaving(cluster) == {"be-1"}, "best-effort pods go first")
    first.kill()
    await until(lambda: _leaving(cluster) == {"be-1", "be-2"}, "the next leader goes on")
    ours = {"key": "node.koordinator.sh/KernelDeadlock", "effect": "NoSchedule"}
    assert cluster.get("node", "u1")["spec"]["taints"] == [*theirs, ours]


def _owned(name: str) -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "o", "uid": "o", "controller": True}
    qos = {"koordinator.sh/qosClass": "BE"} if name.startswith("be") else {"app": name}
    made = pod(name, "crowd", {"nodeName": "u1"}, {}, **qos)
    made["metadata"]["ownerReferences"] = [owner]
    return made


def _leaving(cluster: RealCluster) -> set[str]:
    pods = cluster.get("pods", "-n", "crowd")["items"]
    found = (each["metadata"] for each in pods)
    return {meta["name"] for meta in found if "deletionTimestamp" in meta}


async def _busy(cluster: RealCluster, name: str, cores: float) -> None:
    """A node whose production pod uses so much."""
    cluster.namespace("shop")
    cluster.busy_node(name, "shop")
    await until(lambda: name in cluster.names("nodemetrics"), "its NodeMetric")
    await cluster.report(name, "shop", cores)


async def _offers(cluster: RealCluster, name: str, **wanted: str) -> None:
    """Until it offers so much of batch resources."""
    offers = {f"kubernetes.io/batch-{key}": value for key, value in wanted.items()}
    await until(lambda: offers.items() <= cluster.offers(name).items(), f"{name}: {wanted}")


def _version(cluster: RealCluster, kind: str, name: str) -> str:
    return str(cluster.get(kind, name)["metadata"]["resourceVersion"])


def _configure(cluster: RealCluster, **keys: str) -> None:
    patch = ("--type=merge", "-p", json.dumps({"data": keys}))
    cluster.kubectl("patch", "cm", "slo-controller-config", "-n", NAMESPACE, *patch)


def _zone_offers(cluster: RealCluster, name: str) -> set[str]:
    """What its zones have of batch-cpu."""
    zones = cluster.get("noderesourcetopology", name)["zones"]
    found = [one for zone in zones for one in zone["resources"]]
    return {one["allocatable"] for one in found if one["name"] == "kubernetes.io/batch-cpu"}


def _zones(name: str) -> dict[str, Any]:
    amounts = [{"name": "cpu", "capacity": "10", "allocatable": "10", "available": "10"}]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "topologyPolicies": ["None"],
        "zones": [{"name": "node-0", "type": "Node", "resources": amounts}],
    }


def _device(name: str) -> dict[str, Any]:
    amounts = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "16Gi"}
    gpu = {"type": "gpu", "id": "GPU-1", "minor": 0, "health": True, "resources": amounts}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": name},
        "spec": {"devices": [gpu]},
    }
