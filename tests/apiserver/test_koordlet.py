"""koordlet as a client of a real API server, with the rights of deploy/rbac/koordlet.yaml."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import DEVICES, NODE_METRICS, NODE_TOPOLOGIES, NODES, PODS
from koord_model.keys import ANNOTATION_NODE_RESERVATION

from tests.apiserver.real_cluster import RealCluster
from tests.apiserver.real_node import RealNode, lost, real_node
from tests.support.cluster import ClusterKoordlet
from tests.support.manager_program import NAMESPACE
from tests.support.waiting import until

ACCELERATOR = {
    "vendor": "huawei",
    "model": "Ascend-310P3-300I-DUO",
    "uuid": "185011D4-21104518",
    "minor": "0",
    "resources": {"gpu-core": "100", "gpu-memory": "24Gi", "huawei.com/npu-cpu": "7"},
    "topology": {
        "nodeID": "1",
        "pcieID": "pci0000:80",
        "busID": "0000:81:00.0",
        "p2pLinks": [{"peerMinor": "1", "type": "HCCS"}],
    },
    "status": {"healthy": False, "errCode": "TooHot", "errMessage": "too hot"},
}
PRESSED = {"enable": True, "memoryEvictThresholdPercent": 10, "memoryEvictLowerPercent": 1}
"""Far more is used: batch pods are to go."""
EVICTING = (
    "--read-only=false",
    "--feature-gates=BEMemoryEvict=true",
    "--memory-evict-cool-time-seconds=0",
)
WATCHED = ("nodes", "nodeslos", "nodemetrics")
NOT_MADE_YET = {"404 get noderesourcetopologies"}


async def reported(node: RealNode) -> Object:
    """The NodeMetric's status once all pods are in it."""

    async def look() -> Object:
        status: Object = (await node.get(NODE_METRICS)).get("status") or {}
        return status if len(status.get("podsMetric", ())) == len(node.pods) else {}

    return await until(look, "all pods are reported")


async def follows(node: RealNode, koordlet: ClusterKoordlet, news: str) -> None:
    """It hears of what is new, and writes of it."""
    await node.put_application(news)
    reserved = {"resources": {"memory": f"{len(news)}Gi"}}
    annotations = {ANNOTATION_NODE_RESERVATION: json.dumps(reserved)}
    await node.api.patch(NODES, node.name, {"metadata": {"annotations": annotations}})
    await until(lambda: koordlet.knows_application(news), "the NodeSLO is in force")

    async def told() -> bool:
        annotations = (await node.get(NODE_TOPOLOGIES))["metadata"]["annotations"]
        return bool(json.loads(annotations[ANNOTATION_NODE_RESERVATION]) == reserved)

    await until(told, "the Node's annotation is followed")
    await node.next_report()


def assert_kept(node: RealNode) -> None:
    """The API server has dropped and changed nothing of what koordlet wrote."""
    written = [one for one in node.requests() if one["verb"] in ("create", "patch")]
    taken = [one for one in written if one["responseStatus"]["code"] < 300]
    objects = [one for one in taken if one["objectRef"].get("subresource") != "eviction"]
    assert objects
    found = [line for one in objects for line in lost(one["requestObject"], one["responseObject"])]
    assert found == []


async def test_what_it_tells_and_is_told(installed: RealCluster) -> None:
    async with real_node(installed, "told") as node:
        devices = node.folder / "devices"
        devices.mkdir()
        well = ACCELERATOR | {
            "uuid": "185011D4-21104519",
            "minor": "1",
            "status": {"healthy": True},
        }
        (devices / "huawei.json").write_text(json.dumps([ACCELERATOR, well]))
        flags = ("--feature-gates=Accelerators=true", f"--xpu-device-infos-dir={devices}")
        async with node.koordlet(*flags) as koordlet:
            status = await reported(node)
            windows = [one["duration"] for one in status["nodeMetric"]["aggregatedNodeUsages"]]
            assert windows == ["2s", "1m0s"]
            topology = await until(lambda: node.get(NODE_TOPOLOGIES))
            assert [zone["name"] for zone in topology["zones"]] == ["node-0", "node-1"]
            device = await until(lambda: node.get(DEVICES))
            assert [one["health"] for one in device["spec"]["devices"]] == [False, True]
            await follows(node, koordlet, "first")
        assert node.refusals() == NOT_MADE_YET | {"404 get devices"}
        assert_kept(node)
        asked = node.asked()
        # Before an etcd that is older than 3.4.31 the API server lists by no watch.
        follows_by = {"watch": 1} if not asked["list", WATCHED[0]] else {"list": 1, "watch": 2}
        assert {kind: asked_of(asked, kind) for kind in WATCHED} == dict.fromkeys(
            WATCHED, follows_by
        )
        assert {one for one in asked if one[1] not in WATCHED} == {
            ("patch", "nodemetrics/status"),
            ("create", "devices"),
            ("create", "noderesourcetopologies"),
            ("patch", "noderesourcetopologies"),
        }


def asked_of(asked: Counter[tuple[str, str]], kind: str) -> dict[str, int]:
    """How often it was asked for, by verb."""
    return {verb: times for (verb, what), times in asked.items() if what == kind and times}


def budget(name: str, pod: Object) -> Object:
    """That this pod stays."""
    meta = pod["metadata"]
    selector = {"matchLabels": {"app": meta["name"]}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": meta["namespace"]},
        "spec": {"minAvailable": 1, "selector": selector},
    }


async def ends(node: RealNode, pod: Object) -> bool:
    meta = pod["metadata"]
    found = await node.api.get(PODS, meta["name"], meta["namespace"])
    return "deletionTimestamp" in found["metadata"]


async def test_evictions_respect_budgets(installed: RealCluster) -> None:
    async with real_node(installed, "evicting") as node:
        free, _, _, guarded = node.pods
        namespace = guarded["metadata"]["namespace"]
        installed.apply(budget("one-stays", guarded))

        def allow(disruptions: int) -> None:
            """What the disruption controller says."""
            healthy = {"expectedPods": 1, "currentHealthy": 1, "desiredHealthy": 1}
            status = {**healthy, "observedGeneration": 1, "disruptionsAllowed": disruptions}
            installed.status("pdb", "one-stays", status, namespace)

        allow(0)
        await node.put_slo(resourceUsedThresholdWithBE=PRESSED)
        async with node.koordlet(*EVICTING) as koordlet:
            await until(lambda: ends(node, free), "a pod is evicted")
            said = await until(lambda: node.events_of(guarded), "of the other there is an Event")
            assert "one-stays needs 1 healthy pods and has 1" in said["evictPodFail"]
            assert not await ends(node, guarded)
            allow(1)
            await until(lambda: ends(node, guarded), "its budget allows it")
            await until(lambda: len(koordlet.events("evicted")) == 2)
            told = [await until(lambda pod=pod: node.events_of(pod)) for pod in (free, guarded)]
        assert "evicted by the Eviction API for be_memory_evict" in told[0]["evictPodSuccess"]
        left = installed.get("pdb", "one-stays", "-n", namespace)["status"]
        assert (left["disruptionsAllowed"], [*left["disruptedPods"]]) == (0, ["app-3"])
        assert node.asked()["create", "pods/eviction"] == 2
        assert node.refusals() == NOT_MADE_YET | {"429 create pods/eviction"}
        assert_kept(node)
        installed.kubectl("delete", "pdb", "one-stays", "-n", namespace)


async def test_a_token_that_is_replaced(installed: RealCluster) -> None:
    async with real_node(installed, "rotating") as node:
        async with node.koordlet() as koordlet:
            await reported(node)
            old = node.koordlet_pod
            await node.put_token()
            await asyncio.to_thread(node.end, old, NAMESPACE)  # and with it its token
            await until(lambda: node.koordlet_pod in node.pods_asking(), "the new token is used")
            await follows(node, koordlet, "rotated")
            assert not koordlet.events("cannot report node usage")
        assert node.refusals() == NOT_MADE_YET
        # The file is read as soon as one request is refused, be it by the kubelet.
        assert len(installed.server.asked("")) <= len(WATCHED)
