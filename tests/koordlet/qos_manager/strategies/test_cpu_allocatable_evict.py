"""Evicting mid and batch pods because too much CPU is promised; what both such rules share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.keys import BATCH_CPU, MID_CPU
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koord_model.used_threshold import UsedThreshold
from koordlet.qos_manager.core.strategy import PodView, StrategyView
from koordlet.qos_manager.strategies import cpu_allocatable_evict
from koordlet.qos_manager.strategies.cpu_allocatable_evict import Settings

from tests.support.views import pod_view, view

SETTINGS = Settings(enable=True, threshold_percent=80, lower_percent=70, priority=7999)


def batch(name: str, milli: int, **others: Any) -> PodView:
    return pod_view(name, qos=QoSClass.BE, requests={BATCH_CPU: milli}, **others)


def mid(name: str, milli: int) -> PodView:
    return pod_view(name, qos=QoSClass.LS, priority=7000, requests={"cpu": milli, MID_CPU: milli})


def node(
    *pods: PodView, allocatable: Mapping[str, int] | None = None, **others: Any
) -> StrategyView:
    found = {BATCH_CPU: 100_000, MID_CPU: 100_000} if allocatable is None else allocatable
    return view(pods=pods, allocatable=found, **others)


def claimed(seen: StrategyView, settings: Settings = SETTINGS) -> dict[str, float]:
    plan = cpu_allocatable_evict.plan(seen, settings, None)
    return {claim.resource: claim.need for claim in plan.claims}


def test_settings_are_the_node_slo_s() -> None:
    assert cpu_allocatable_evict.settings(NodeSLO()) == Settings()
    given_ = UsedThreshold(
        enable=True,
        cpu_allocatable_evict=80,
        cpu_allocatable_evict_lower=70,
        allocatable_evict_priority=7999,
    )
    assert cpu_allocatable_evict.settings(NodeSLO(threshold=given_)) == SETTINGS


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ((batch("a", 2000), batch("b", 3000)), {}),
        ((batch("a", 45_000), batch("b", 40_000)), {BATCH_CPU: 15_000}),
        ((batch("a", 85_000), mid("b", 85_000)), {BATCH_CPU: 15_000, MID_CPU: 15_000}),
        ((batch("a", 85_000), mid("b", 80_000)), {BATCH_CPU: 15_000}),
        ((), {}),
        ((pod_view("prod", qos=QoSClass.LS, requests={"cpu": 10**6}),), {}),
        # Nobody knows what it requests.
        ((batch("a", 85_000, listed=False),), {}),
    ],
    ids=["few", "batch", "both", "one", "none", "prod", "unknown"],
)
def test_each_resource_is_held_against_what_the_node_has(
    pods: tuple[PodView, ...], expected: dict[str, float]
) -> None:
    assert claimed(node(*pods, allocatable={"cpu": 1, BATCH_CPU: 100_000, MID_CPU: 100_000})) == (
        pytest.approx(expected)
    )


def test_only_promises_up_to_the_priority_count() -> None:
    seen = node(batch("a", 85_000), mid("b", 85_000))
    assert claimed(seen, replace(SETTINGS, priority=5999)) == pytest.approx({BATCH_CPU: 15_000})


def test_victims_are_those_who_were_promised_the_resource() -> None:
    seen = node(
        batch("small", 40_000), batch("large", 45_000), batch("none", 0), mid("mid", 50_000)
    )
    (claim,) = cpu_allocatable_evict.plan(seen, SETTINGS, None).claims
    assert (claim.rule, claim.resource) == ("CPUAllocatableEvict", BATCH_CPU)
    assert (claim.opt_in, claim.forced) == (True, False)
    assert claim.decision.outcome == f"{BATCH_CPU} is oversold: pods are to be evicted"
    released = [(victim.pod.uid, victim.releases) for victim in claim.victims]
    assert released == [("large", 45_000), ("small", 40_000)]


def test_where_nothing_is_left_all_is_too_much() -> None:
    assert claimed(node(batch("a", 85_000), allocatable={BATCH_CPU: 0})) == {BATCH_CPU: 85_000}


def test_a_node_that_does_not_say_what_it_has_claims_nothing() -> None:
    plan = cpu_allocatable_evict.plan(
        node(batch("a", 85_000), allocatable={"cpu": 64_000}), SETTINGS, None
    )
    assert plan.claims == ()
    assert {one.aspect: one.outcome for one in plan.decisions} == {
        BATCH_CPU: f"no eviction: the Node does not say how much {BATCH_CPU} it has",
        MID_CPU: f"no eviction: no pod requests {MID_CPU}",
    }


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (node(batch("a", 10**6), pods_known=False), "which pods run"),
        (node(batch("a", 10**6), allocatable={}), "what the Node has to allocate"),
    ],
    ids=["pods", "node"],
)
def test_what_is_not_known_claims_nothing(seen: StrategyView, words: str) -> None:
    plan = cpu_allocatable_evict.plan(seen, SETTINGS, None)
    assert plan.claims == ()
    assert words in plan.decisions[0].outcome


def test_what_is_not_oversold_says_the_numbers() -> None:
    plan = cpu_allocatable_evict.plan(node(batch("a", 1000)), SETTINGS, None)
    numbers = {given_.name: given_.value for given_ in plan.decisions[0].given}
    assert plan.decisions[0].outcome == f"no eviction: {BATCH_CPU} is not oversold"
    assert numbers == {"promised": 1000, "allocatable": 100_000, "lower": 70, "threshold": 80}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"enable": False}, "enable"),
        ({"threshold_percent": None}, "cpuAllocatableEvictThresholdPercent"),
        ({"lower_percent": None}, "cpuAllocatableEvictLowerPercent"),
        ({"lower_percent": 80}, "cpuAllocatableEvictLowerPercent"),
        ({"threshold_percent": 0, "lower_percent": 0}, "cpuAllocatableEvictLowerPercent"),
        ({"priority": None}, "allocatableEvictPriorityThreshold"),
        ({"priority": 9000}, "allocatableEvictPriorityThreshold"),
    ],
)
def test_what_switches_it_off_is_named(changes: dict[str, Any], field: str) -> None:
    seen = node(batch("a", 10**6))
    plan = cpu_allocatable_evict.plan(seen, replace(SETTINGS, **changes), None)
    assert plan.claims == ()
    assert plan.decisions[0].outcome.startswith(
        f"off: NodeSLO resourceUsedThresholdWithBE.{field} "
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, 3500, 5500, 5999, 6000, 7500, 9500]),
            st.integers(0, 10**6),
            st.integers(0, 10**6),
        ),
        max_size=8,
    ),
    st.integers(0, 10**6),
)
def test_a_claim_names_only_pods_that_may_go_and_that_free_it(
    given_pods: list[tuple[int | None, int, int]], allocatable: int
) -> None:
    pods = [
        pod_view(f"p{n}", priority=priority, requests={BATCH_CPU: one, MID_CPU: other})
        for n, (priority, one, other) in enumerate(given_pods)
    ]
    seen = node(*pods, allocatable={BATCH_CPU: allocatable, MID_CPU: allocatable})
    plan = cpu_allocatable_evict.plan(seen, SETTINGS, None)
    assert plan == cpu_allocatable_evict.plan(seen, SETTINGS, plan.memory)
    bands = {BATCH_CPU: range(5000, 6000), MID_CPU: range(7000, 8000)}
    for claim in plan.claims:
        assert 0 < claim.need <= sum(victim.releases for victim in claim.victims)
        for pod, releases in claim.victims:
            assert releases == pod.requests[claim.resource]
            assert pod.priority in bands[claim.resource]
