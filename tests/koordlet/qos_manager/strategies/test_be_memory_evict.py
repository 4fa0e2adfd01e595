"""Evicting best-effort pods for the node's memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_model.node_slo import NodeSLO
from koord_model.qos import KubeQoS, QoSClass
from koord_model.used_threshold import UsedThreshold
from koordlet.qos_manager.strategies import be_memory_evict
from koordlet.qos_manager.strategies.be_memory_evict import Settings

from tests.support.views import GIB, FakeLatest, memory_info, pod_view, view

SETTINGS = Settings(enable=True, threshold_percent=80, lower_percent=70)
PODS = (
    pod_view("ls", qos=QoSClass.LS, priority=5000),
    pod_view("kubernetes-best-effort", kube=KubeQoS.BEST_EFFORT),
    pod_view("a", qos=QoSClass.BE, priority=5500),
    pod_view("b", qos=QoSClass.BE, priority=5500),
    pod_view("c", qos=QoSClass.BE, priority=5400),
    pod_view("unmeasured", qos=QoSClass.BE, priority=100),
)
LATEST = FakeLatest(
    {("node_memory_usage",): 85 * GIB},
    memory_info(100 * GIB),
    pod_memory_usage={pod.uid: (n + 1) * GIB for n, pod in enumerate(PODS[:5])},
)


def test_settings_are_the_node_slo_s() -> None:
    assert be_memory_evict.settings(NodeSLO()) == Settings(threshold_percent=70)
    given = UsedThreshold(enable=True, memory_evict=80, memory_evict_lower=70)
    assert be_memory_evict.settings(NodeSLO(threshold=given)) == SETTINGS


def test_only_pods_labelled_best_effort_go_and_need_not_have_agreed() -> None:
    plan = be_memory_evict.plan(view(pods=PODS, latest=LATEST), SETTINGS, None)
    (claim,) = plan.claims
    assert (claim.rule, claim.resource, claim.opt_in) == ("BEMemoryEvict", "memory", False)
    assert claim.need == pytest.approx(15 * GIB)
    released = [(victim.pod.uid, victim.releases / GIB) for victim in claim.victims]
    assert released == [("c", 5), ("b", 4), ("a", 3)]


def test_below_the_threshold_nobody_goes() -> None:
    settings = replace(SETTINGS, threshold_percent=86)
    plan = be_memory_evict.plan(view(pods=PODS, latest=LATEST), settings, None)
    assert plan.claims == ()
    assert plan.decisions[0].outcome == "no eviction: memory is below its threshold"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"enable": False}, "enable"),
        ({"threshold_percent": None}, "memoryEvictThresholdPercent"),
        ({"lower_percent": 90}, "memoryEvictLowerPercent"),
    ],
)
def test_what_switches_it_off_is_named(changes: dict[str, Any], field: str) -> None:
    settings = replace(SETTINGS, **changes)
    plan = be_memory_evict.plan(view(pods=PODS, latest=LATEST), settings, None)
    assert plan.claims == ()
    assert plan.decisions[0].outcome.startswith(
        f"off: NodeSLO resourceUsedThresholdWithBE.{field} "
    )
