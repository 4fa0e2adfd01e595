"""Evicting pods up to a priority for the node's memory; what all rules of use have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koord_model.used_threshold import UsedThreshold
from koordlet.qos_manager.core.strategy import NOTHING, PodView, StrategyView
from koordlet.qos_manager.strategies import memory_evict
from koordlet.qos_manager.strategies.memory_evict import Settings

from tests.support.views import GIB, FakeLatest, memory_info, pod_view, view

SETTINGS = Settings(enable=True, threshold_percent=80, lower_percent=70, priority=7999)
PODS = (
    pod_view("prod", qos=QoSClass.LS, priority=9500),
    pod_view("mid", priority=7500),
    pod_view("batch", qos=QoSClass.BE, priority=5500),
    pod_view("larger", qos=QoSClass.BE, priority=5500),
    pod_view("unmeasured", qos=QoSClass.BE, priority=5500),
    pod_view("unknown", qos=QoSClass.BE, listed=False),
)
USED = {"prod": 40 * GIB, "mid": 20 * GIB, "batch": 5 * GIB, "larger": 9 * GIB, "unknown": GIB}


def node(
    used: float, pods: tuple[PodView, ...] = PODS, total: int = 100, **others: Any
) -> StrategyView:
    """A node of ``total`` GiB; ``used`` in GiB."""
    values = {("node_memory_usage",): used * GIB}
    latest = FakeLatest(values, memory_info(total * GIB), pod_memory_usage=USED)
    return view(pods=pods, latest=latest, **others)


def test_settings_are_the_node_slo_s() -> None:
    assert memory_evict.settings(NodeSLO()) == Settings(threshold_percent=70)
    given_ = UsedThreshold(enable=True, memory_evict=80, memory_evict_lower=70, evict_priority=7999)
    assert memory_evict.settings(NodeSLO(threshold=given_)) == SETTINGS


def test_above_the_threshold_pods_go_by_priority_and_then_by_use() -> None:
    (claim,) = memory_evict.plan(node(85), SETTINGS, None).claims
    assert (claim.rule, claim.resource) == ("MemoryEvict", "memory")
    assert (claim.opt_in, claim.forced) == (True, False)
    assert claim.need == pytest.approx(15 * GIB)
    released = [(victim.pod.uid, victim.releases) for victim in claim.victims]
    # Bytes, as they are: not a thousand times as many.
    assert released == [("larger", 9 * GIB), ("batch", 5 * GIB), ("mid", 20 * GIB)]
    assert claim.decision.outcome == "memory is at or above its threshold: pods are to be evicted"


@pytest.mark.parametrize(
    ("used", "lower", "need"),
    [(79.9, 70, None), (80, 70, 10), (80, None, 2), (100, 70, 30), (0, 70, None)],
)
def test_what_is_above_the_lower_threshold_is_claimed(
    used: float, lower: int | None, need: float | None
) -> None:
    plan = memory_evict.plan(node(used), replace(SETTINGS, lower_percent=lower), None)
    assert [claim.need for claim in plan.claims] == ([] if need is None else [need * GIB])


def test_below_the_threshold_the_outcome_stays_the_same_while_numbers_move() -> None:
    outcomes = []
    for used in (10.0, 79.0):
        plan = memory_evict.plan(node(used), SETTINGS, None)
        (decision,) = plan.decisions
        numbers = {given_.name: given_.value for given_ in decision.given}
        assert numbers["use"] == pytest.approx(used)
        assert numbers["threshold"] == 80
        outcomes.append(decision.outcome)
        assert plan.claims == ()
    assert outcomes == ["no eviction: memory is below its threshold"] * 2


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"enable": False}, "enable is not true"),
        ({"threshold_percent": None}, "memoryEvictThresholdPercent is not set"),
        ({"threshold_percent": 0}, "memoryEvictThresholdPercent is 0"),
        ({"lower_percent": 80}, "memoryEvictLowerPercent is 80"),
        ({"priority": None}, "evictEnabledPriorityThreshold is not set"),
    ],
)
def test_what_switches_it_off_is_named(changes: dict[str, Any], field: str) -> None:
    plan = memory_evict.plan(node(99), replace(SETTINGS, **changes), None)
    assert plan.claims == ()
    assert [one.outcome.partition(field)[:2] for one in plan.decisions] == [
        ("off: NodeSLO resourceUsedThresholdWithBE.", field)
    ]


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (node(99, pods_known=False), "no eviction: it is not known yet which pods run"),
        (node(99, total=0), "no eviction: the node's memory is not known"),
        (view(pods=PODS), "no eviction: the node's memory is not known"),
        (
            view(pods=PODS, latest=FakeLatest({}, memory_info())),
            "no eviction: how much memory is used is not known",
        ),
    ],
    ids=["pods", "no-memory", "nothing", "usage"],
)
def test_what_is_not_known_claims_nothing(seen: StrategyView, outcome: str) -> None:
    plan = memory_evict.plan(seen, SETTINGS, None)
    assert plan.claims == ()
    assert [one.outcome for one in plan.decisions] == [outcome]


@pytest.mark.parametrize("pods", [(), PODS[:1], PODS[4:]], ids=["none", "prod", "unknown"])
def test_without_a_pod_that_may_go_it_is_said(pods: tuple[PodView, ...]) -> None:
    plan = memory_evict.plan(node(99, pods), SETTINGS, None)
    assert plan.claims == ()
    assert "has no pod to evict" in plan.decisions[0].outcome


def test_pods_on_their_way_out_stay_in_the_claim() -> None:
    """Whoever chooses has to know what they free."""
    going = frozenset(pod.uid for pod in PODS)
    expected = memory_evict.plan(node(99), SETTINGS, None)
    assert memory_evict.plan(node(99, evicting=going), SETTINGS, None) == expected


pods = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 3500, 5500, 7500, 7999, 8000, 9500, 2_000_000_000]),
        st.sampled_from(list(QoSClass)),
        st.none() | st.floats(0, 50),
        st.booleans(),
    ),
    max_size=8,
)


@given(pods, st.floats(0, 100), st.floats(0, 100))
def test_a_claim_names_only_pods_that_may_go(
    given_pods: list[tuple[int | None, QoSClass, float | None, bool]], one: float, other: float
) -> None:
    made = tuple(
        pod_view(f"p{n}", priority=priority, qos=qos, listed=listed)
        for n, (priority, qos, _, listed) in enumerate(given_pods)
    )
    used = {f"p{n}": use for n, (_, _, use, _) in enumerate(given_pods) if use is not None}
    needs = []
    for use in sorted((one, other)):
        values = {("node_memory_usage",): use}
        latest = FakeLatest(values, memory_info(100), pod_memory_usage=used)
        seen = view(pods=made, latest=latest)
        plan = memory_evict.plan(seen, SETTINGS, None)
        assert plan == memory_evict.plan(seen, SETTINGS, plan.memory)
        assert plan.memory is NOTHING.memory
        needs.append(sum(claim.need for claim in plan.claims))
        for claim in plan.claims:
            assert claim.victims
            for pod, releases in claim.victims:
                assert pod.demand is not None
                assert releases == used[pod.uid] > 0
                assert (pod.priority or 0) <= 7999
                assert pod.priority or pod.qos is QoSClass.BE
    assert 0 <= needs[0] <= needs[1]
