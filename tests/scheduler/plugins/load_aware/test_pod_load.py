"""What vectors of Koordinator's leave out about a pod's load."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.objects.pod_times import PodTimes, pod_times
from koord_scheduler.objects.requests import pod_limits


def test_overhead_is_added_to_limits_that_are_not_0() -> None:
    limits = {"limits": {"cpu": "0", "memory": "1Gi"}}
    overhead = {"cpu": "50m", "memory": "1Mi", "example.com/a": "1"}
    spec = {"containers": [{"name": "c", "resources": limits}], "overhead": overhead}
    pod = read_pod(msgspec.json.encode({"spec": spec}))
    assert pod_limits(pod) == {"cpu": 0, "memory": 1025 << 20}


@pytest.mark.parametrize(
    ("status", "scheduled", "initialized"),
    [
        ({}, 60.0, None),
        ({"PodScheduled": ("True", "01:05")}, 65.0, None),
        ({"PodScheduled": ("False", "01:05")}, 60.0, None),
        ({"PodScheduled": ("True", "01:05"), "Initialized": ("True", "01:10")}, 65.0, 70.0),
    ],
)
def test_since_when_a_pod_has_its_node(
    status: dict[str, tuple[str, str]], scheduled: float, initialized: float | None
) -> None:
    conditions: list[Any] = [
        {"type": kind, "status": one, "lastTransitionTime": f"1970-01-01T00:{minute}Z"}
        for kind, (one, minute) in status.items()
    ]
    metadata = {"creationTimestamp": "1970-01-01T00:01:00Z"}
    pod = {"metadata": metadata, "status": {"conditions": conditions}}
    assert pod_times(read_pod(msgspec.json.encode(pod))) == PodTimes(scheduled, initialized)
