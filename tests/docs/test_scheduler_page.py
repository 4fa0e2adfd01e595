"""Examples of the scheduler's page are what koordctl prints."""

from __future__ import annotations

import datetime
import json

import msgspec
from koord_scheduler.objects.metadata import ObjectMeta
from koord_scheduler.objects.node import Node, NodeSpec, NodeStatus, Taint
from koord_scheduler.program.explanation import Document
from koordctl.placement_text import scheduled_lines, waiting_lines
from koordctl.scheduler_documents import PlacementDocument

from tests.docs.words import block, page
from tests.scheduler.program.test_explanation import NOW, Shop

PAGE = page("scheduler.md")


def shop() -> Shop:
    """Some nodes of 4 cores that are not equally full, and some of 64 that have a taint."""
    made = Shop(**{f"node-{number}": "4" for number in range(1, 6)})
    for number in range(1, 4):
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        taints = [Taint("nvidia.com/gpu", "", "NoSchedule")]
        gpu = Node(ObjectMeta(f"gpu-{number}"), NodeSpec(taints), NodeStatus(amounts))
        made.scheduler.nodes.set(gpu)
        made.pod(f"used-{number}", f"{900 * number}m", nodeName=f"node-{number}")
    made.pod("small", "1", nodeName="node-2")
    made.node("node-6", "16", unschedulable=True)
    return made


def read(found: Document) -> PlacementDocument:
    return msgspec.convert(json.loads(json.dumps(found)), PlacementDocument)


def test_why_a_pod_waits() -> None:
    made = shop()
    pod = made.pod("web-0", "4500m")
    made.scheduler.decide(NOW.monotonic)
    shown = [*waiting_lines(read(made.why(pod)), datetime.UTC)]
    assert block(PAGE, "pending").rstrip("\n").splitlines() == shown


def test_why_a_pod_is_where_it_is() -> None:
    shown = [*scheduled_lines(read(shop().why_placed("used-2", "1800m")))]
    assert block(PAGE, "scheduled").rstrip("\n").splitlines() == shown
