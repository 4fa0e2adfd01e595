"""Katalyst's object from what koordlet reports."""

from __future__ import annotations

from typing import Any

from koord_model.node_info import Processor
from koordlet.metrics_reporter.documents import custom_node_resource
from koordlet.qos_manager.eviction.plugins.core.answers import PluginCondition

NOW = 1_700_000_000.0


def zone(name: str, cpu: str) -> dict[str, Any]:
    amounts = {"capacity": cpu, "allocatable": cpu, "available": cpu}
    return {"name": name, "type": "Node", "resources": [{"name": "cpu", **amounts}]}


TOPOLOGY = {
    "metadata": {
        "name": "n1",
        "ownerReferences": [{"kind": "Node", "name": "n1", "uid": "u"}],
        "annotations": {"node.koordinator.sh/reservation": '{"reservedCPUs": "2"}'},
    },
    "topologyPolicies": ["RestrictedPodLevel"],
    "zones": [zone("node-0", "2"), zone("node-1", "1"), zone("node-2", "0")],
}
PROCESSORS = (Processor(0, 0, 0, 0), Processor(1, 1, 0, 0), Processor(2, 2, 1, 1))


def pod(name: str, qos: str, cpu: str, memory: str) -> dict[str, Any]:
    used = {"resources": {"cpu": cpu, "memory": memory}}
    return {"namespace": "d", "name": name, "qos": qos, "podUsage": used}


USAGE = {
    "updateTime": "2023-11-14T22:13:20Z",
    "nodeMetric": {
        "nodeUsage": {"resources": {"cpu": "3", "memory": "7Gi"}},
        "numaUsages": [{"numaNodeID": 0, "nodeUsage": {"resources": {"cpu": "1"}}}],
    },
    "podsMetric": [
        pod("a", "LSE", "1500m", "1Gi"),
        pod("b", "LSR", "600m", "1024"),
        pod("c", "BE", "1", "1Mi"),
        pod("d", "?", "1", "1Mi"),
    ],
}


def made(
    node: dict[str, Any] | None = None, *conditions: tuple[str, PluginCondition]
) -> dict[str, Any]:
    built = custom_node_resource.build(node or {}, TOPOLOGY, PROCESSORS, conditions)
    return custom_node_resource.with_usage(built, USAGE, NOW)


def test_zones_are_the_reported_ones_below_their_sockets():
    first, second, alone = made()["status"]["topologyZone"]
    assert [(first["type"], first["name"]), (second["type"], second["name"])] == [
        ("Socket", "0"),
        ("Socket", "1"),
    ]
    amounts = {"allocatable": {"cpu": "2"}, "capacity": {"cpu": "2"}}
    assert first["children"] == [{"type": "Numa", "name": "0", "resources": amounts}]
    (numa,) = second["children"]
    assert numa["attributes"] == [{"name": "reserved_cpu_list", "value": "2"}]
    # Memory alone, in no socket.
    assert (alone["type"], alone["name"]) == ("Numa", "2")


def test_usage_is_grouped_by_level():
    status = made()["status"]["nodeMetricStatus"]
    assert status["updateTime"] == USAGE["updateTime"]
    assert status["nodeMetric"] == {
        "genericUsage": {"cpu": "3", "memory": "7Gi"},
        "numaUsage": [{"numaId": 0, "usage": {"cpu": "1"}}],
    }
    assert status["groupMetric"] == [
        {
            "QoSLevel": "dedicated_cores",
            "genericUsage": {"cpu": "2100m", "memory": "1048577Ki"},
            "podList": ["d/a", "d/b"],
        },
        {
            "QoSLevel": "reclaimed_cores",
            "genericUsage": {"cpu": "1", "memory": "1Mi"},
            "podList": ["d/c"],
        },
    ]


def test_reclaimed_resources_are_the_batch_resources_and_nothing_where_there_are_none():
    batch = {"kubernetes.io/batch-cpu": "2500", "kubernetes.io/batch-memory": "3Gi", "cpu": "8"}
    prefix = "resource.katalyst.kubewharf.io/reclaimed_"
    offered = made({"status": {"allocatable": batch}})["status"]["resources"]
    assert offered["allocatable"] == {f"{prefix}millicpu": "2500", f"{prefix}memory": "3Gi"}
    assert offered["capacity"] == offered["allocatable"]
    none = made()["status"]["resources"]["allocatable"]
    assert none == {f"{prefix}millicpu": "0", f"{prefix}memory": "0"}


def test_conditions_of_plugins_are_taints_of_a_level_and_never_evict():
    effects = ("reclaimed_cores/NoSchedule", "reclaimed_cores/NoExecute", "other/NoSchedule")
    found = made(
        None,
        ("p", PluginCondition("pressure", effects, on_cnr=True)),
        ("p", PluginCondition("of-the-node", ("NoSchedule",))),
    )
    assert found["spec"]["taints"] == [
        {
            "key": "node.katalyst.kubewharf.io/pressure",
            "effect": "NoSchedule",
            "qosLevel": "reclaimed_cores",
        }
    ]
    # Without any, taints are left to others.
    assert "spec" not in made()


def test_it_is_ready_before_anything_is_measured():
    built = custom_node_resource.build({}, TOPOLOGY, PROCESSORS, ())
    status = custom_node_resource.with_usage(built, None, NOW)["status"]
    assert "nodeMetricStatus" not in status
    (ready,) = status["conditions"]
    assert (ready["type"], ready["status"]) == ("AgentReady", "True")
    assert ready["lastHeartbeatTime"] == "2023-11-14T22:13:20Z"
