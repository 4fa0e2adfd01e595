from __future__ import annotations

from typing import Any

import pytest
from koord_manager.pod_webhook import document
from koord_manager.pod_webhook.class_rules import changed, problems
from koord_manager.pod_webhook.document import PodDocument
from koord_manager.webhooks.cluster_view import ClusterView

QOS, SUB = "koordinator.sh/qosClass", "koordinator.sh/priority"
CLASS = "koordinator.sh/priority-class"


def pod(
    qos: str = "", priority: int | None = None, node: str = "", cpu: str = "", **more: Any
) -> PodDocument:
    labels = {QOS: qos} if qos else {}
    resources = {"requests": {**({"cpu": cpu} if cpu else {}), **more.get("requests", {})}}
    spec = {
        "containers": [{"name": "c", "resources": resources}],
        "priority": priority,
        "nodeName": node,
    }
    metadata = {"labels": labels | more.get("labels", {}), "annotations": more.get("annotations")}
    return document.read({"metadata": metadata, "spec": spec})


PRIORITIES = {"prod": 9500, "mid": 7500, "batch": 5500, "free": 3500, "none": 0}
FORBIDDEN = {
    ("BE", "none"),
    ("BE", "prod"),
    ("LSR", "none"),
    ("LSR", "mid"),
    ("LSR", "batch"),
    ("LSR", "free"),
}


@pytest.mark.parametrize("qos", ["BE", "LS", "LSR", "LSE", "SYSTEM", ""])
@pytest.mark.parametrize("name", PRIORITIES)
def test_which_classes_go_together(qos: str, name: str) -> None:
    found = problems(pod(qos, PRIORITIES[name], cpu="1"))
    assert bool(found) is ((qos, name) in FORBIDDEN), found


@pytest.mark.parametrize(
    ("qos", "cpu", "fine"),
    [
        ("LSR", "2", True),
        ("LSE", "2000m", True),
        ("LSR", "1500m", False),
        ("LSE", "", False),
        ("LSR", "0", False),
        ("LS", "1500m", True),
        ("SYSTEM", "", True),
    ],
)
def test_whole_cores(qos: str, cpu: str, fine: bool) -> None:
    found = problems(pod(qos, 9500, cpu=cpu))
    assert (not found) is fine
    for line in found:
        assert line.endswith(f"expected whole cores, 1 or more, with label {QOS} {qos}")


BATCH_CPU = "kubernetes.io/batch-cpu"
RESERVE = "scheduling.koordinator.sh/reserve-pod"


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        (
            pod("BE", 9500),
            ['the priority class is "koord-prod" (spec.priority 9500); expected koord-mid or '],
        ),
        (pod("BE"), ['the priority class is "" (spec.priority unset)']),
        (
            pod("BE", 5500, labels={CLASS: "koord-prod"}),
            [f'the priority class is "koord-prod" (label {CLASS})'],
        ),
        (pod("BE", 5500, requests={BATCH_CPU: "1", "kubernetes.io/batch-memory": "1"}), []),
        (
            pod("LS", requests={BATCH_CPU: "1"}),
            [f'label {QOS} is "LS"; expected BE with {BATCH_CPU}'],
        ),
        (
            pod(requests={"kubernetes.io/batch-memory": "1"}),
            [f"label {QOS} is missing; expected BE with kubernetes.io/batch-memory"],
        ),
        (pod(requests={BATCH_CPU: "0"}), []),
        (pod(annotations={RESERVE: ""}), [f"annotation {RESERVE} "]),
        # All of them together.
        (pod("LSR", 5500, requests={BATCH_CPU: "1"}), ["the priority", "label", "its containers"]),
    ],
)
def test_how_problems_are_said(given: PodDocument, lines: list[str]) -> None:
    found = problems(given)
    assert len(found) == len(lines), found
    for line in lines:
        assert any(one.startswith(line) for one in found), found


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (pod("BE", 5500, "n"), pod("LS", 5500, "n"), QOS),
        (pod("BE", 5500, "n"), pod("", 5500, "n"), QOS),
        (pod("BE", 5500, "n"), pod("BE", 7500, "n"), "the priority class"),
        (pod(node="n"), pod(node="n", labels={CLASS: "koord-mid"}), "the priority class"),
        (pod(node="n"), pod(node="n", labels={SUB: "1"}), f"label {SUB}"),
    ],
)
def test_classes_stay_on_a_node(old: PodDocument, new: PodDocument, what: str) -> None:
    (line,) = changed(new, old, ClusterView())
    assert what in line
    assert line.endswith("which cannot change on a node; create another pod")
    old.spec.node_name = ""
    assert changed(new, old, ClusterView()) == []


@pytest.mark.parametrize(
    ("new", "old", "gate"),
    [
        (pod("BE", 5500, "n"), pod("BE", 5600, "n"), False),
        (pod(node="n", labels={SUB: "1"}), pod(node="n"), True),
    ],
)
def test_what_may_change(new: PodDocument, old: PodDocument, gate: bool) -> None:
    view = ClusterView(gates={"ColocationProfileSkipValidatingPriority": gate})
    assert changed(new, old, view) == []
