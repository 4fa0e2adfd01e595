"""What is recomputed from the API's events is found where it is wrong."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.apiserver.scheduling_history import Node, Pod, SchedulingHistory, forgotten_pods


def pod(name: str, node: str = "", version: int = 1, cpu: str = "1", phase: str = "") -> bytes:
    containers = [{"resources": {"requests": {"cpu": cpu}}}]
    meta = {"name": name, "uid": name, "resourceVersion": str(version)}
    spec = {"nodeName": node, "containers": containers}
    return json.dumps({"metadata": meta, "spec": spec, "status": {"phase": phase}}).encode()


def node(name: str, version: int = 1, *, tainted: bool = False) -> bytes:
    meta = {"name": name, "resourceVersion": str(version)}
    spec = {"taints": [{"key": "a"}] if tainted else []}
    status = {"allocatable": {"cpu": "2", "pods": "2"}}
    return json.dumps({"metadata": meta, "spec": spec, "status": status}).encode()


A, B = pod("a", "n1"), pod("b", "n1")


@pytest.mark.parametrize(
    ("events", "number"),
    [
        ([("ADDED", pod("a")), ("MODIFIED", A), ("MODIFIED", A)], 0),
        ([("MODIFIED", A), ("MODIFIED", pod("a", "n2"))], 1),
        ([("MODIFIED", A), ("MODIFIED", B)], 0),
        ([("MODIFIED", A), ("MODIFIED", B), ("MODIFIED", pod("c", "n1", cpu="1m"))], 1),
        ([("MODIFIED", A), ("MODIFIED", B), ("MODIFIED", pod("c", "n1", cpu="0"))], 1),
        ([("MODIFIED", A), ("MODIFIED", B), ("DELETED", A), ("MODIFIED", pod("c", "n1"))], 0),
        (
            [
                ("MODIFIED", A),
                ("MODIFIED", B),
                ("MODIFIED", pod("a", "n1", phase="Failed")),
                ("MODIFIED", pod("c", "n1")),
            ],
            0,
        ),
    ],
)
def test_pods_that_move_and_nodes_that_have_too_much(
    events: list[tuple[str, bytes]], number: int
) -> None:
    history = SchedulingHistory((2000, 2))
    for kind, raw in events:
        history.pod_event(kind, raw, 0.0)
    assert len(history.violations) == number


def test_bindings_to_nodes_that_are_closed() -> None:
    history = SchedulingHistory((2000, 9))
    history.node_event("ADDED", node("n1", 1), 1.0)
    history.node_event("MODIFIED", node("n1", 3, tainted=True), 3.0)
    history.node_event("MODIFIED", node("n1", 5), 5.0)
    history.node_event("DELETED", node("n1", 7), 7.0)
    for version in (2, 4, 6, 8):
        history.pod_event("ADDED", pod(f"p{version}", "n1", version, "0"), float(version))
    assert history.late_bindings() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("pods", "is_tainted", "forgotten"),
    [
        ([pod("a")], False, ["a"]),
        ([pod("a")], True, []),
        ([pod("a", cpu="3")], False, []),
        ([pod("a", "n1", cpu="1500m"), pod("b")], False, []),
        ([pod("a", "n1", cpu="0"), pod("b", "n1", cpu="0"), pod("c", cpu="0")], False, []),
        ([pod("a", "n1", cpu="2", phase="Failed"), pod("b")], False, ["b"]),
    ],
)
def test_pods_that_would_fit(pods: list[bytes], is_tainted: bool, forgotten: list[str]) -> None:
    nodes = [msgspec.json.decode(node("n1", tainted=is_tainted), type=Node)]
    found = forgotten_pods([msgspec.json.decode(one, type=Pod) for one in pods], nodes)
    assert found == forgotten
