"""What a running pod takes of its node; all else is in the vectors of kube-scheduler."""

from __future__ import annotations

import json

import msgspec
import pytest
from koord_model.keys import BATCH_CPU, BATCH_MEMORY, LABEL_QOS
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import placed_requests

IN_FORCE = {"cpu": "300m", "memory": "64Mi"}


def takes(requests: dict[str, str], qos: str = "") -> dict[str, int]:
    """A pod that runs with more than it asked for, as its kubelet reports."""
    status = {"name": "c", "resources": {"requests": {**requests, **IN_FORCE}}}
    document = {
        "metadata": {"name": "p", "labels": {LABEL_QOS: qos}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"containerStatuses": [status]},
    }
    return dict(placed_requests(msgspec.json.decode(json.dumps(document), type=PodInfo)).amounts)


def test_shares_that_hooks_set_are_no_cpu_that_a_batch_pod_asks_for() -> None:
    asked = {BATCH_CPU: "300", BATCH_MEMORY: "64Mi"}
    assert takes(asked, "BE") == {BATCH_CPU: 300, BATCH_MEMORY: 64 << 20}


@pytest.mark.parametrize("qos", ["BE", "LS", ""])
def test_what_another_pod_has_while_it_is_resized_counts(qos: str) -> None:
    assert takes({"cpu": "100m", "memory": "32Mi"}, qos) == {"cpu": 300, "memory": 64 << 20}
