"""Koordinator's eviction rules: whom each evicts for what, and which field switches it off.

How much is to be freed is the arithmetic of ``eviction.claims``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_model.keys import BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY
from koord_model.qos import KubeQoS, QoSClass
from koordlet.qos_manager.strategies import (
    be_cpu_evict,
    be_memory_evict,
    cpu_allocatable_evict,
    cpu_evict,
    memory_allocatable_evict,
    memory_evict,
)

from tests.support.views import (
    GIB,
    FakeHistory,
    FakeLatest,
    cpu_info,
    memory_info,
    pod_view,
    stats,
    view,
)


def batch(name: str, milli: int, gib: int, **others: Any) -> Any:
    requests = {BATCH_CPU: milli, BATCH_MEMORY: gib * GIB}
    return pod_view(name, qos=QoSClass.BE, requests=requests, **others)


PODS = (
    pod_view("prod", qos=QoSClass.LS, priority=9500, requests={"cpu": 10**6, "memory": 90 * GIB}),
    pod_view("mid", priority=7500, requests={"cpu": 1, MID_CPU: 50_000, MID_MEMORY: 11 * GIB}),
    pod_view("bare", kube=KubeQoS.BEST_EFFORT),
    batch("batch", 40_000, 20, priority=5500),
    batch("large", 45_000, 30, priority=5500),
    batch("none", 0, 0, priority=5400),
    batch("unlisted", 10**6, 10**3, listed=False),
)
NODE = view(
    pods=PODS,
    allocatable={
        BATCH_CPU: 100_000, MID_CPU: 100_000, BATCH_MEMORY: 40 * GIB, MID_MEMORY: 10 * GIB,
    },
    latest=FakeLatest(
        {("node_memory_usage",): 85 * GIB, ("node_cpu_usage",): 9.5},
        memory_info(100 * GIB),
        cpu_info(10),
        pod_memory_usage={
            "prod": 40 * GIB, "mid": 20 * GIB, "bare": GIB, "batch": 5 * GIB, "large": 9 * GIB,
            "unlisted": 2 * GIB,
        },
        pod_cpu_usage={"prod": 2, "mid": 2, "bare": 0.5, "batch": 1, "large": 3, "unlisted": 0.2},
    ),
    history=FakeHistory({("node_cpu_usage",): stats(9.0, points=30, seconds=29)}),
)  # fmt: skip
BE = "cpuEvictBESatisfaction"
SETTINGS: dict[Any, Any] = {
    memory_evict: memory_evict.Settings(True, 80, 70, 7999),
    be_memory_evict: be_memory_evict.Settings(True, 80, 70),
    cpu_evict: cpu_evict.Settings(True, 80, 60, 5999, 30),
    cpu_allocatable_evict: cpu_allocatable_evict.Settings(True, 80, 70, 7999),
    memory_allocatable_evict: memory_allocatable_evict.Settings(True, 110, 100, 7999),
    be_cpu_evict: be_cpu_evict.Settings(True, 30, 40),
}


@pytest.mark.parametrize(
    ("rule", "resource", "opt_in", "need", "victims"),
    [
        (memory_evict, "memory", True, 15 * GIB, {"large": 9, "batch": 5, "bare": 1, "mid": 20}),
        (be_memory_evict, "memory", False, 15 * GIB, {"large": 9, "batch": 5, "unlisted": 2}),
        (cpu_evict, "cpu", True, 3.0, {"large": 3, "batch": 1, "bare": 0.5}),
        (cpu_allocatable_evict, BATCH_CPU, True, 15_000, {"large": 45_000, "batch": 40_000}),
        # At 110 % the memory of mid is at its threshold, not above.
        (memory_allocatable_evict, BATCH_MEMORY, True, 10 * GIB, {"large": 30, "batch": 20}),
    ],
    ids=lambda one: getattr(one, "GATE", ""),
)
def test_pods_of_the_rule_go_in_order_with_what_each_frees(
    rule: Any, resource: str, opt_in: bool, need: float, victims: dict[str, float]
) -> None:
    (claim,) = rule.plan(NODE, SETTINGS[rule], None).claims
    assert (claim.rule, claim.resource) == (rule.GATE, resource)
    assert (claim.opt_in, claim.forced) == (opt_in, False)
    assert claim.need == pytest.approx(need)
    unit = GIB if "memory" in resource else 1
    assert [(one.pod.uid, one.releases / unit) for one in claim.victims] == list(victims.items())


@pytest.mark.parametrize(
    ("rule", "changes", "field"),
    [
        (memory_evict, {"enable": False}, "enable is not true"),
        (memory_evict, {"threshold_percent": 0}, "memoryEvictThresholdPercent is 0;"),
        (memory_evict, {"lower_percent": 80}, "memoryEvictLowerPercent is 80;"),
        (memory_evict, {"priority": None}, "evictEnabledPriorityThreshold is not set"),
        (be_memory_evict, {"enable": False}, "enable is not true"),
        (be_memory_evict, {"threshold_percent": None}, "memoryEvictThresholdPercent is not set"),
        (be_memory_evict, {"lower_percent": 90}, "memoryEvictLowerPercent is 90;"),
        (cpu_evict, {"enable": False}, "enable is not true"),
        (cpu_evict, {"threshold_percent": None}, "cpuEvictThresholdPercent is not set"),
        (cpu_evict, {"lower_percent": 80}, "cpuEvictLowerPercent is 80;"),
        (cpu_evict, {"priority": None}, "evictEnabledPriorityThreshold is not set"),
        (cpu_allocatable_evict, {"enable": False}, "enable is not true"),
        (cpu_allocatable_evict, {"threshold_percent": None}, "cpuAllocatableEvictThresholdPercent"),
        (cpu_allocatable_evict, {"lower_percent": None}, "cpuAllocatableEvictLowerPercent is not"),
        (cpu_allocatable_evict, {"priority": 9000}, "allocatableEvictPriorityThreshold is 9000;"),
        (memory_allocatable_evict, {"threshold_percent": None}, "memoryAllocatableEvictThreshold"),
        (memory_allocatable_evict, {"lower_percent": 110}, "memoryAllocatableEvictLowerPercent is"),
        (memory_allocatable_evict, {"priority": None}, "allocatableEvictPriorityThreshold is not"),
        (be_cpu_evict, {"enable": False}, "enable is not true"),
        (be_cpu_evict, {"lower_percent": None}, f"{BE}LowerPercent is not set"),
        (be_cpu_evict, {"lower_percent": 0}, f"{BE}LowerPercent is 0; expected 1 to 60"),
        (be_cpu_evict, {"lower_percent": 61}, f"{BE}LowerPercent is 61; expected 1 to 60"),
        (be_cpu_evict, {"upper_percent": None}, f"{BE}UpperPercent is not set"),
        (be_cpu_evict, {"upper_percent": 29}, f"{BE}UpperPercent is 29; expected 30 to 99"),
        (be_cpu_evict, {"upper_percent": 100}, f"{BE}UpperPercent is 100; expected 30 to 99"),
    ],
    ids=lambda one: getattr(one, "GATE", None) or str(one),
)
def test_the_field_that_switches_it_off_is_named(
    rule: Any, changes: dict[str, Any], field: str
) -> None:
    plan = rule.plan(NODE, replace(SETTINGS[rule], **changes), None)
    assert plan.claims == ()
    assert plan.decisions[0].outcome.startswith(f"off: NodeSLO resourceUsedThresholdWithBE.{field}")
