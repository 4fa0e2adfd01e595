from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from koord_manager.noderesource.core.documents import (
    metric_status,
    older_than_its_node,
    topology,
    updated,
)
from koord_model.keys import ANNOTATION_CPU_BASIC_INFO


def raw(given: Any) -> bytes:
    return json.dumps(given).encode()


def test_the_status_of_a_metric_is_as_it_came() -> None:
    text = b'{"metadata":{"name":"n"},"spec":{"a":1},"status":{"updateTime": "x" }}'
    assert metric_status(text) == b'{"updateTime": "x" }'
    assert metric_status(b"{}") == b"null"


@pytest.mark.parametrize(
    ("status", "at"),
    [
        (b'{"updateTime":"2026-11-20T10:00:00Z","nodeMetric":{}}', 1_795_168_800.0),
        (b"{}", 0.0),
        (b"null", 0.0),
        (b'{"updateTime":"x"}', 0.0),
        (b"{", 0.0),
    ],
)
def test_when_a_status_was_made(status: bytes, at: float) -> None:
    assert updated(status) == at


@pytest.mark.parametrize(
    ("at", "created", "older"),
    [
        (1_795_168_799.0, "2026-11-20T10:00:00Z", True),
        (1_795_168_800.0, "2026-11-20T10:00:00Z", False),
        (1_795_168_801.0, "2026-11-20T10:00:00Z", False),
        (1_795_168_799.0, "2026-11-20T11:00:00+01:00", True),
        (0.0, "2026-11-20T10:00:00Z", False),
        (1_795_168_799.0, "", False),
        (1_795_168_799.0, "2026-11-20T10:00:00", False),
        (1_795_168_799.0, "soon", False),
        (-62_135_596_800.0, "2026-11-20T10:00:00Z", False),
    ],
)
def test_a_status_from_before_its_node_is_of_another_one(
    at: float, created: str, older: bool
) -> None:
    assert older_than_its_node(at, created) is older


def test_of_a_topology_what_its_cpus_are_and_its_zones() -> None:
    zones = [{"name": "node-0", "type": "Node", "costs": [{"name": "x", "value": 1}]}]
    annotations = {ANNOTATION_CPU_BASIC_INFO: "{}", "node.koordinator.sh/cpu-topology": "long"}
    metadata = {"name": "n", "resourceVersion": "7", "annotations": annotations}
    found = topology(raw({"metadata": metadata, "zones": zones}))
    assert found.version == "7"
    assert found.document() == {
        "metadata": {"annotations": {ANNOTATION_CPU_BASIC_INFO: "{}"}},
        "zones": zones,
    }
    assert topology(b"{}").document() == {"metadata": {"annotations": {}}, "zones": []}


def test_what_is_of_another_shape_is_refused() -> None:
    with pytest.raises(msgspec.MsgspecError):
        topology(b'{"zones":{"a":1}}')
    with pytest.raises(msgspec.MsgspecError):
        metric_status(b"[]")
