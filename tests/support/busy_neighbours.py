"""Pages of a scheduler and a descheduler that have much to say, made by their own code."""

from __future__ import annotations

from typing import Any

from koord_descheduler.planner.move import Move, MoveRefusal, RoundPlan
from koord_descheduler.program.history import RoundHistory
from koord_descheduler.program.plan_document import plan_overview
from koord_scheduler.objects.metadata import AnnotatedMeta
from koord_scheduler.objects.node import Node, NodeSpec, NodeStatus
from koord_scheduler.program.overview import device_shares

from tests.descheduler.clusters import NOW, TestCluster, node, pod
from tests.scheduler.program.test_explanation import Shop
from tests.scheduler.program.test_web import busy_overview


def scheduler_pages() -> dict[str, Any]:
    """Of one with gangs that wait, and GPUs on two nodes."""
    devices = Shop()
    for name, used in (("gpu-00009", 6), ("gpu-00019", 8)):
        amounts = {"cpu": "64", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "8"}
        devices.scheduler.nodes.set(Node(AnnotatedMeta(name), NodeSpec(), NodeStatus(amounts)))
        asked = {"requests": {"nvidia.com/gpu": str(used)}}
        devices.pod(name, nodeName=name, containers=[{"name": "c", "resources": asked}])
    return {
        "/v1/overview": busy_overview(),
        "/v1/devices": device_shares(devices.scheduler.nodes),
    }


def descheduler_pages() -> dict[str, Any]:
    """Of one that cools down some nodes."""
    cluster = TestCluster()
    cluster.put(*(node(f"web-{number:05}") for number in range(8)))
    cluster.put(*(pod(f"spark-exec-{number}", f"web-{number:05}") for number in range(8)))
    pods = [one.view for one in cluster.cluster.pods.values()]
    moves = tuple(
        Move(one, f"batch-{90 + place:05}", "default", "LowNodeLoad", "node is overutilized")
        for place, one in enumerate(pods[:5])
    )
    rules = ("pod disruption budget", "cool-down", "cool-down")
    refusals = [
        MoveRefusal(one, "default", "LowNodeLoad", rule, "it moved 40 s ago")
        for one, rule in zip(pods[5:], rules, strict=True)
    ]
    plan, history = RoundPlan(NOW, moves, tuple(refusals)), RoundHistory()
    history.planned(plan, 0.2)
    for place, move in enumerate(moves):
        refused = place == 4
        why = "no budget permits it" if refused else ""
        history.executed(move, "refused" if refused else "evicted", why, NOW + place)
    overview = {
        "identity": "koord-descheduler-1",
        "leads": True,
        "leader": "koord-descheduler-1",
        "dry_run": False,
        "obstacle": "",
        "under_way": 3,
        "results": list(history.results()),
        "plan": plan_overview(plan),
    }
    return {"/v1/overview": overview}
