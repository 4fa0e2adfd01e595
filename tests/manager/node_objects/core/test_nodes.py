from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from koord_manager.node_objects.core.nodes import ClusterNode, is_gone, largest_memory, read_node


def raw(given: Any) -> bytes:
    return json.dumps(given).encode()


def test_of_a_node_is_kept_what_counts() -> None:
    meta = {"name": "n1", "uid": "u", "creationTimestamp": "2026-11-20T10:00:00Z"}
    status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}
    found = read_node(
        raw({"metadata": meta | {"labels": {"a": "b"}, "annotations": None}, "status": status})
    )
    created = "2026-11-20T10:00:00Z"
    assert found == ClusterNode("n1", "u", {"a": "b"}, {}, created, {"cpu": "4"}, {"cpu": "3"})
    assert found.document() == {
        "metadata": {"name": "n1", "labels": {"a": "b"}, "annotations": {}},
        "status": status,
    }


def test_a_heartbeat_is_no_change() -> None:
    node: dict[str, Any] = {
        "metadata": {"name": "n", "resourceVersion": "1", "labels": {"a": "b"}},
        "status": {"capacity": {"cpu": "4"}, "conditions": [{"lastHeartbeatTime": "now"}]},
    }
    first = read_node(raw(node))
    node["metadata"]["resourceVersion"] = "2"
    node["status"]["conditions"] = []
    assert read_node(raw(node)) == first
    node["metadata"]["uid"] = "another"
    assert read_node(raw(node)) != first


@pytest.mark.parametrize("text", [b"[]", b'{"metadata": 7}', b'{"metadata":{"labels":7}}', b"{"])
def test_what_is_no_node_is_refused(text: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        read_node(text)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, ClusterNode("n", "a"), False),
        (ClusterNode("n", "a"), ClusterNode("n", "a", {"l": "1"}), False),
        (ClusterNode("n", "a"), ClusterNode("n", "b"), True),
        (ClusterNode("n", "a"), None, True),
        (None, None, False),
    ],
)
def test_one_that_was_made_again_is_gone(
    before: ClusterNode | None, now: ClusterNode | None, expected: bool
) -> None:
    assert is_gone(before, now) is expected


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ([], 0),
        ([("8Gi", "7Gi"), ("4Gi", "4Gi")], 7 << 30),
        ([("8Gi", "16Gi")], 8 << 30),
        ([("8Gi", None), (None, "8Gi"), ("much", "more")], 0),
        ([("8Gi", "much"), ("2Gi", "1Gi")], 1 << 30),
    ],
)
def test_the_largest_memory(amounts: list[tuple[str | None, str | None]], expected: int) -> None:
    nodes = [
        ClusterNode("n", capacity={"memory": capacity}, allocatable={"memory": allocatable})
        for capacity, allocatable in amounts
    ]
    assert largest_memory([*nodes, ClusterNode("unknown")]) == expected
