from __future__ import annotations

import copy
from typing import Any

import pytest
from koord_manager.pod_webhook.device_spec import mutated
from koord_manager.webhooks.cluster_view import ClusterView

Object = dict[str, Any]
GPU, CORE, RATIO, MEMORY, SHARED = (
    f"koordinator.sh/{name}"
    for name in ("gpu", "gpu-core", "gpu-memory-ratio", "gpu-memory", "gpu.shared")
)
NPU = "huawei.com/npu-core"


def pod(amounts: Object, *groups: str) -> Object:
    resources = {group: dict(amounts) for group in groups or ("requests", "limits")}
    return {"spec": {"containers": [{"name": "c", "resources": resources}, {"name": "d"}]}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({GPU: "50"}, {CORE: "50", RATIO: "50", SHARED: "1"}),
        ({GPU: "100"}, {CORE: "100", RATIO: "100", SHARED: "1"}),
        ({GPU: 200}, {CORE: "200", RATIO: "200", SHARED: "2"}),
        ({GPU: "150"}, {CORE: "150", RATIO: "150", SHARED: "1"}),
        ({RATIO: "300", CORE: "100"}, {RATIO: "300", CORE: "100", SHARED: "3"}),
        ({CORE: "200", MEMORY: "1Gi"}, {CORE: "200", MEMORY: "1Gi", SHARED: "2"}),
        ({MEMORY: "8Gi"}, {MEMORY: "8Gi", SHARED: "1"}),
        ({CORE: "100", SHARED: "4"}, {CORE: "100", SHARED: "4"}),
        ({GPU: "all"}, {GPU: "all"}),
        ({NPU: "8", RATIO: "100"}, {NPU: "8", RATIO: "100"}),
        ({NPU: "2", MEMORY: "6Gi"}, {NPU: "2", MEMORY: "6Gi", SHARED: "1"}),
        ({"cpu": "1"}, {"cpu": "1"}),
    ],
)
def test_what_a_container_asks_for(given: Object, expected: Object) -> None:
    before = pod(given)
    kept = copy.deepcopy(before)
    after = mutated(before, "ns", ClusterView(), [])
    assert before == kept
    assert after["spec"]["containers"] == pod(expected)["spec"]["containers"]
    assert mutated(after, "ns", ClusterView(), []) == after


def test_the_gate_turns_it_off() -> None:
    given = pod({GPU: "100"})
    view = ClusterView(gates={"DisableDeviceResourceSpec": True})
    assert mutated(given, "ns", view, []) is given


def test_without_the_gate_of_nodes_no_gpus_are_counted() -> None:
    view = ClusterView(gates={"EnableSyncGPUSharedResource": False})
    assert mutated(pod({GPU: "50"}), "", view, []) == pod({CORE: "50", RATIO: "50"})
