"""Evicting mid and batch pods because too much memory is promised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_model.keys import BATCH_MEMORY, MID_MEMORY
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koord_model.used_threshold import UsedThreshold
from koordlet.qos_manager.strategies import memory_allocatable_evict
from koordlet.qos_manager.strategies.memory_allocatable_evict import Settings

from tests.support.views import GIB, pod_view, view

SETTINGS = Settings(enable=True, threshold_percent=110, lower_percent=100, priority=7999)
NODE = view(
    pods=(
        pod_view("a", qos=QoSClass.BE, requests={BATCH_MEMORY: 20 * GIB}),
        pod_view("b", qos=QoSClass.BE, requests={BATCH_MEMORY: 30 * GIB}),
        pod_view("c", priority=7000, requests={"memory": GIB, MID_MEMORY: 11 * GIB}),
    ),
    allocatable={BATCH_MEMORY: 40 * GIB, MID_MEMORY: 10 * GIB},
)


def test_settings_are_the_node_slo_s() -> None:
    assert memory_allocatable_evict.settings(NodeSLO()) == Settings()
    given = UsedThreshold(
        enable=True,
        memory_allocatable_evict=110,
        memory_allocatable_evict_lower=100,
        allocatable_evict_priority=7999,
    )
    assert memory_allocatable_evict.settings(NodeSLO(threshold=given)) == SETTINGS


def test_memory_is_claimed_in_bytes_of_the_class_that_is_oversold() -> None:
    plan = memory_allocatable_evict.plan(NODE, SETTINGS, None)
    (claim,) = plan.claims
    assert (claim.rule, claim.resource) == ("MemoryAllocatableEvict", BATCH_MEMORY)
    assert claim.opt_in
    assert claim.need == pytest.approx(10 * GIB)
    assert [(one.pod.uid, one.releases) for one in claim.victims] == [
        ("b", 30 * GIB),
        ("a", 20 * GIB),
    ]
    # At 110 % mid's is at its threshold, not above.
    assert plan.decisions[1].outcome == f"no eviction: {MID_MEMORY} is not oversold"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"enable": False}, "enable"),
        ({"threshold_percent": None}, "memoryAllocatableEvictThresholdPercent"),
        ({"lower_percent": 110}, "memoryAllocatableEvictLowerPercent"),
        ({"priority": None}, "allocatableEvictPriorityThreshold"),
    ],
)
def test_what_switches_it_off_is_named(changes: dict[str, Any], field: str) -> None:
    plan = memory_allocatable_evict.plan(NODE, replace(SETTINGS, **changes), None)
    assert plan.claims == ()
    assert plan.decisions[0].outcome.startswith(
        f"off: NodeSLO resourceUsedThresholdWithBE.{field} "
    )
