"""A NodeMetric's status with every kind of field, and what to put into its places."""

from __future__ import annotations

import json
from typing import Any

Object = dict[str, Any]

_TIME = "2026-11-20T10:00:00Z"
_GPU: Object = {
    "type": "gpu", "id": "GPU-0", "minor": 0, "health": True, "labels": {"a": "b"},
    "resources": {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "1Gi"},
    "topology": {"socketID": -1, "nodeID": 0, "pcieID": "p", "busID": "0000:3b:00.0"},
    "vfGroups": [{"labels": {"c": "d"}, "vfs": [{"minor": 1, "busID": "0000:3b:00.1"}]}],
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": _TIME,
                    "reason": "Fine", "message": "fine", "observedGeneration": 1}],
}  # fmt: skip
_USAGE: Object = {"resources": {"cpu": "1500m", "memory": 1 << 30}, "devices": [_GPU]}
_WINDOW: Object = {"duration": "5m0s", "usage": {"avg": _USAGE, "p99": _USAGE}}
_CLASSES = {"priority": "koord-prod", "qos": "LS"}

WHOLE: Object = {
    "updateTime": _TIME,
    "nodeMetric": {
        "nodeUsage": _USAGE,
        "aggregatedNodeUsages": [_WINDOW],
        "systemUsage": {"resources": {"cpu": ".5", "memory": "1e3"}},
        "aggregatedSystemUsages": [_WINDOW],
        "numaUsages": [{"numaNodeID": 0, "nodeUsage": _USAGE, "systemUsage": {}}],
    },
    "podsMetric": [
        {"name": "a", "namespace": "b", "podUsage": _USAGE, **_CLASSES,
         "extensions": {"pykoord": {"containers": [{"name": "c", "share": 0.5, "n": None}]}}},
    ],
    "hostApplicationMetric": [{"name": "nginx", "usage": _USAGE, **_CLASSES}],
    "prodReclaimableMetric": {"resource": _USAGE},
    "prodPeakMetric": {"resource": _USAGE},
}  # fmt: skip

ODD: list[Any] = [
    None, True, 0.5, 1e300, "", "x", [], {}, [[]], {"": {"": None}}, 1 << 31, 1 << 63,
    -(1 << 63) - 1, 10**400, float("inf"), float("nan"), "\ud800", "\u2028\n\r\x00", "1e999999999",
    "1e.5", "1e3m", "5m\n", "99999999999999h", "0001-01-01T00:00:00Z", "2026-11-20", "+",
    {"a": 10**30},
    {"a": {"b": [float("-inf")]}}, [{"a": [[[[[[[[[[[[[[1]]]]]]]]]]]]]]}],
]  # fmt: skip


def strictly(text: bytes) -> Any:
    """JSON as other programs read it: without Python's NaN, and numbers that they can hold."""

    def refuse(given: str) -> None:
        raise AssertionError(given)

    def whole(given: str) -> int:
        assert -(1 << 63) <= int(given) < 1 << 63, given
        return int(given)

    return json.loads(text, parse_constant=refuse, parse_int=whole)
