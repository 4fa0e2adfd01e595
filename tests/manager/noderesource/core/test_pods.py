from __future__ import annotations

import json
from typing import Any

import pytest
from koord_manager.noderesource.core.pods import PodSummary, read_pod_summary
from koord_model.keys import ANNOTATION_RESOURCE_STATUS, LABEL_QOS
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


def test_a_static_pod_counts_as_the_kubelet_runs_it() -> None:
    """A profile had turned its mirror into a batch pod."""
    batch = {"kubernetes.io/batch-cpu": "4000", "kubernetes.io/batch-memory": "8Gi"}
    mirror = {"annotations": {"kubernetes.io/config.mirror": "h"}, "labels": {LABEL_QOS: "BE"}}
    found = pod(requests=batch, priority=5500, **mirror)
    assert (found.high, found.cpu, found.memory) == (True, 4000, 8 * GIB)
    assert not pod(requests=batch, priority=5500, labels={LABEL_QOS: "BE"}).high
    assert not pod(requests={}, qos="BestEffort", **mirror).high


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
    with pytest.raises(ValueError, match="is not a valid Pod"):
        read_pod_summary(text)
