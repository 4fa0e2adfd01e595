"""What a running pod takes of its node; all else is in the vectors of kube-scheduler."""

from __future__ import annotations

import json

import msgspec
import pytest
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import placed_requests

IN_FORCE = {"cpu": "300m", "memory": "64Mi"}


def takes(requests: dict[str, str]) -> dict[str, int]:
    """A pod that runs with more than it asked for, as its kubelet reports."""
    status = {"name": "c", "resources": {"requests": {**requests, **IN_FORCE}}}
    document = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"containerStatuses": [status]},
    }
    return dict(placed_requests(msgspec.json.decode(json.dumps(document), type=PodInfo)).amounts)


@pytest.mark.parametrize("name", ["batch", "mid"])
def test_shares_that_hooks_set_are_no_cpu_that_a_colocated_pod_asks_for(name: str) -> None:
    asked = {f"kubernetes.io/{name}-cpu": "300", f"kubernetes.io/{name}-memory": "64Mi"}
    assert takes(asked) == {
        f"kubernetes.io/{name}-cpu": 300,
        f"kubernetes.io/{name}-memory": 64 << 20,
    }


def test_what_a_plain_pod_has_while_it_is_resized_counts() -> None:
    assert takes({"cpu": "100m", "memory": "32Mi"}) == {"cpu": 300, "memory": 64 << 20}
