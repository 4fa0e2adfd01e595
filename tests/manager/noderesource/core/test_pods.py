from __future__ import annotations

import json
from typing import Any

import pytest
from koord_manager.noderesource.core.pods import PodSummary, read_pod_summary
from koord_model.keys import ANNOTATION_RESOURCE_STATUS, LABEL_QOS, MID_CPU, MID_MEMORY
from koord_model.priority import LABEL_PRIORITY_CLASS, PriorityClass

GIB = 1 << 30


def pod(**more: Any) -> PodSummary:
    requests = more.pop("requests", {"cpu": "500m", "memory": "1Gi"})
    status = {"phase": more.pop("phase", "Running"), "qosClass": more.pop("qos", "Burstable")}
    metadata = {
        "name": "web",
        "namespace": "ns",
        "labels": more.pop("labels", None),
        "annotations": more.pop("annotations", None),
    }
    spec = {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": requests}}]}
    given = {"metadata": metadata, "spec": spec | more, "status": status}
    return read_pod_summary(json.dumps(given).encode())


def test_a_plain_pod() -> None:
    found = pod()
    assert found == PodSummary("n1", True, PriorityClass.PROD, False, 500, GIB, 500, GIB, ())
    assert found.high


@pytest.mark.parametrize(
    ("phase", "active"),
    [("Running", True), ("Pending", True), ("Succeeded", False), ("Failed", False)],
)
def test_pods_that_have_ended_do_not_count(phase: str, active: bool) -> None:
    assert pod(phase=phase).active is active


@pytest.mark.parametrize(
    ("given", "priority", "high"),
    [
        ({"priority": 9500}, PriorityClass.PROD, True),
        ({"priority": 7500}, PriorityClass.MID, True),
        ({"priority": 5500}, PriorityClass.BATCH, False),
        ({"priority": 3500}, PriorityClass.FREE, False),
        ({"labels": {LABEL_PRIORITY_CLASS: "koord-batch"}}, PriorityClass.BATCH, False),
        ({"labels": {LABEL_QOS: "BE"}}, PriorityClass.BATCH, False),
        ({"qos": "BestEffort"}, PriorityClass.BATCH, False),
        ({"qos": "", "requests": {}}, PriorityClass.BATCH, False),
        ({"qos": ""}, PriorityClass.PROD, True),
    ],
)
def test_which_pods_come_before_batch(
    given: dict[str, Any], priority: PriorityClass, high: bool
) -> None:
    found = pod(**given)
    assert (found.priority, found.high) == (priority, high)


def test_whose_cpus_nobody_else_gets() -> None:
    assert pod(labels={LABEL_QOS: "LSE"}).lse
    assert not pod(labels={LABEL_QOS: "LSR"}).lse
    assert not pod(qos="Guaranteed").lse


def test_requests_are_the_whole_pods() -> None:
    init = {"name": "i", "resources": {"requests": {"cpu": "2"}}}
    found = pod(initContainers=[init], overhead={"cpu": "100m", "memory": "64Mi"})
    assert (found.cpu, found.memory) == (2100, GIB + (64 << 20))
    assert (found.unseen_cpu, found.unseen_memory) == (found.cpu, found.memory)


def test_an_unmeasured_mid_pod_counts_with_its_mid_resources() -> None:
    found = pod(priority=7500, requests={MID_CPU: "1500", MID_MEMORY: "2Gi"})
    assert (found.cpu, found.memory) == (0, 0)
    assert (found.unseen_cpu, found.unseen_memory) == (1500, 2 * GIB)
    prod = pod(requests={MID_CPU: "1500"})
    assert prod.unseen_cpu == 0


def test_numa_nodes_of_the_schedulers_annotation() -> None:
    def bound(text: str) -> tuple[int, ...]:
        return pod(annotations={ANNOTATION_RESOURCE_STATUS: text}).numa_nodes

    both = [{"node": node, "resources": {"cpu": "1"}} for node in (1, 0)]
    assert bound(json.dumps({"numaNodeResources": both})) == (0, 1)
    assert bound(json.dumps({"cpuset": "0-3"})) == ()
    assert bound("{nonsense") == ()


def test_equal_values_are_kept_once() -> None:
    one, other = (pod(requests={"cpu": "12345m", "memory": "77Gi"}) for _ in range(2))
    assert one.cpu is other.cpu
    assert one.memory is other.memory
    assert one.node is other.node


@pytest.mark.parametrize("text", [b"", b"[]", b'{"spec":{"containers":7}}', b"\xff"])
def test_what_is_no_pod_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="is no Pod"):
        read_pod_summary(text)
