"""Evicting pods past thresholds of our own: soft ones with grace and notice, hard ones at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.keys import LABEL_EVICTION_ENABLED
from koord_model.node_slo import NodeSLO
from koord_model.qos import KubeQoS, QoSClass
from koordlet.qos_manager.core.settings import parse_settings
from koordlet.qos_manager.core.strategy import (
    EvictionClaim,
    Plan,
    PodView,
    Strategy,
    StrategyMode,
    StrategyView,
)
from koordlet.qos_manager.eviction.claims.node_thresholds import (
    NodeSignal,
    NodeThreshold,
    PressureAverage,
)
from koordlet.qos_manager.eviction.policy.account import EvictionAllowance
from koordlet.qos_manager.eviction.policy.guard import refusal
from koordlet.qos_manager.eviction.policy.selection import select_evictions
from koordlet.qos_manager.strategies import threshold_evict
from koordlet.qos_manager.strategies.threshold_evict import Settings

from tests.support.views import (
    GIB,
    STEADY,
    FakeHistory,
    FakeLatest,
    cpu_info,
    memory_info,
    pod_view,
    stats,
    view,
)

AGREED = {LABEL_EVICTION_ENABLED: "true"}
PODS = (
    pod_view("prod", qos=QoSClass.LS, priority=9500, labels=AGREED),
    pod_view("mid", qos=QoSClass.LS, priority=7000, labels=AGREED),
    pod_view("refuses", qos=QoSClass.LS, priority=5000),
    pod_view("small", qos=QoSClass.BE, priority=5500),
    pod_view("large", qos=QoSClass.BE, priority=5500),
    pod_view("free", qos=QoSClass.BE, priority=3500),
    pod_view("unknown", qos=QoSClass.BE, listed=False),
)
MEMORY = {"prod": 50, "mid": 20, "refuses": 9, "small": 2, "large": 5, "free": 1, "unknown": 1}
SOFT = NodeThreshold(NodeSignal.MEMORY_AVAILABLE, percent=20, free_percent=2, grace_seconds=60)
HARD = NodeThreshold(NodeSignal.MEMORY_AVAILABLE, percent=10, free_percent=2, hard=True)
PRESSURE = NodeThreshold(
    NodeSignal.MEMORY_PRESSURE, percent=20, grace_seconds=0, average=PressureAverage.AVG10
)


def node(
    available: float | None = 50,
    *,
    after: float = 0,
    pods: tuple[PodView, ...] = PODS,
    psi: float | None = None,
    **others: Any,
) -> StrategyView:
    """A node of 100 GiB, ``after`` seconds."""
    values = {} if available is None else {("node_memory_usage",): (100 - available) * GIB}
    used = {uid: amount * GIB for uid, amount in MEMORY.items()}
    latest = FakeLatest(values, memory_info(100 * GIB), cpu_info(10), pod_memory_usage=used)
    series = {} if psi is None else {("node_psi", "mem", "avg10", "some"): stats(psi)}
    history = FakeHistory(series)
    return view(pods=pods, latest=latest, history=history, steady=STEADY + after, **others)


def settings(*thresholds: NodeThreshold) -> Settings:
    return Settings(thresholds)


def rounds(views: Iterable[StrategyView], given_settings: Settings) -> list[Plan]:
    plans: list[Plan] = []
    for seen in views:
        plans.append(
            threshold_evict.plan(seen, given_settings, plans[-1].memory if plans else None)
        )
    return plans


def uids(claim: EvictionClaim) -> list[str]:
    return [victim.pod.uid for victim in claim.victims]


def outcome(plan: Plan) -> str:
    (decision,) = plan.decisions
    return decision.outcome


# ---- settings


def test_without_thresholds_nothing_is_watched() -> None:
    assert threshold_evict.settings(NodeSLO()) == Settings()
    assert outcome(threshold_evict.plan(node(1), Settings(), None)) == "off: no thresholds are set"


def test_thresholds_are_read_from_the_node_slo_s_extensions() -> None:
    module: Any = threshold_evict
    strategy = Strategy(
        "threshold_evict", module.GATE, 1.0, module.Settings, module.settings, module.plan
    )
    listed = [
        {"signal": "memory.available", "percent": 10, "grace_seconds": 120},
        {"signal": "memory.available", "quantity": 536870912, "hard": True},
        {"signal": "memory.pressure", "percent": 20, "average": "avg10"},
    ]
    given_ = {"threshold_evict": {"thresholds": listed, "priority": 5999}}
    found = parse_settings(strategy, NodeSLO(strategies=given_))
    assert found.ignored == ()
    assert found.settings.priority == 5999
    assert [str(one) for one in found.settings.thresholds] == [
        "soft memory.available < 10 %",
        "hard memory.available < 512 MiB",
        "soft memory.pressure avg10 some > 20 %",
    ]
    wrong = {"threshold_evict": {"thresholds": [{"signal": "cpu.usage"}], "priority": 9000}}
    found = parse_settings(strategy, NodeSLO(strategies=wrong))
    assert found.settings == Settings()
    assert len(found.ignored) == 2


# ---- hard


def test_a_hard_threshold_claims_at_once_and_may_not_wait() -> None:
    plan = threshold_evict.plan(node(9), settings(HARD), None)
    first, second = plan.claims
    for claim in plan.claims:
        assert (claim.rule, claim.resource) == ("ThresholdEvict", "memory")
        assert claim.need == pytest.approx(3 * GIB)
        assert (claim.forced, claim.notice_seconds) == (True, 0.0)
    assert (first.opt_in, uids(first)) == (False, ["free", "large", "small"])
    assert (second.opt_in, uids(second)) == (True, ["free", "large", "small", "refuses", "mid"])
    assert plan.notices == ()
    assert outcome(plan).startswith("hard memory.available < 10 %: it is passed, and pods")


def test_at_its_threshold_it_is_not_passed() -> None:
    plan = threshold_evict.plan(node(10), settings(HARD), None)
    assert plan.claims == ()
    assert outcome(plan) == "hard memory.available < 10 %: no eviction, for it is not passed"


# ---- soft


def test_a_soft_threshold_claims_after_its_grace_period() -> None:
    seen = [node(19, after=second) for second in (0, 30, 59.9, 60, 61)]
    plans = rounds(seen, settings(SOFT))
    assert [len(plan.claims) for plan in plans] == [0, 0, 0, 2, 2]
    assert not plans[3].claims[0].forced
    assert {outcome(plan) for plan in plans[:3]} == {
        "soft memory.available < 20 %: it is passed, and pods are to be evicted if it is for 60 s"
    }


def test_those_who_would_go_first_are_told_once_when_grace_begins() -> None:
    seen = [node(19, after=0), node(19, after=1), node(17, after=2), node(17, after=3)]
    plans = rounds(seen, settings(SOFT))
    # 3 GiB are needed, then 5: of the lowest class is free with 1, then large with 5.
    assert [[one.pod.uid for one in plan.notices] for plan in plans] == [
        ["free", "large"],
        [],
        [],
        [],
    ]
    (first, _) = plans[0].notices
    assert first.reason == "MayBeEvicted"
    assert "soft memory.available < 20 %" in first.message
    more = rounds([node(19, after=0), node(10, after=1)], settings(SOFT))
    # Who is not labelled for eviction is not alarmed, nor is production.
    assert [one.pod.uid for one in more[1].notices] == ["small", "mid"]


def test_a_break_begins_a_new_episode() -> None:
    seen = [node(19, after=0), node(19, after=50), node(21, after=55), node(19, after=60)]
    seen += [node(19, after=119), node(19, after=120)]
    plans = rounds(seen, settings(SOFT))
    assert [len(plan.claims) for plan in plans] == [0, 0, 0, 0, 0, 2]
    assert [len(plan.notices) for plan in plans] == [2, 0, 0, 2, 0, 0]


def test_what_is_not_known_for_a_moment_claims_nothing_and_breaks_nothing() -> None:
    seen = [node(19, after=0), node(19, after=40), node(None, after=61), node(19, after=62)]
    plans = rounds(seen, settings(SOFT))
    assert [len(plan.claims) for plan in plans] == [0, 0, 0, 2]
    expected = "soft memory.available < 20 %: no eviction, for it is not known"
    assert outcome(plans[2]) == expected


def test_what_is_not_known_for_long_begins_anew() -> None:
    seen = [node(19, after=0), node(None, after=31), node(19, after=61)]
    assert rounds(seen, settings(SOFT))[-1].claims == ()


def test_while_pods_are_not_known_nothing_is_claimed_nor_forgotten() -> None:
    seen = [node(19, after=0), node(19, after=60, pods_known=False), node(19, after=61)]
    plans = rounds(seen, settings(SOFT))
    assert [len(plan.claims) for plan in plans] == [0, 0, 2]
    assert "which pods run" in outcome(plans[1])


def test_without_grace_it_claims_at_once_with_its_notice() -> None:
    soft = replace(SOFT, grace_seconds=0, notice_seconds=30)
    plan = threshold_evict.plan(node(19), settings(soft), None)
    assert [claim.notice_seconds for claim in plan.claims] == [30, 30]
    assert plan.notices == ()


# ---- averages


def test_pressure_takes_one_pod_and_then_waits_for_the_average_to_show_it() -> None:
    going = frozenset({"free"})
    left = tuple(pod for pod in PODS if pod.uid != "free")
    seen = [
        node(psi=30),
        node(psi=30, after=1, evicting=going),
        node(psi=30, after=2, pods=left),
        node(psi=30, after=10.9, pods=left),
        node(psi=30, after=11, pods=left),
    ]
    plans = rounds(seen, settings(PRESSURE))
    assert [len(plan.claims) for plan in plans] == [2, 0, 0, 0, 2]
    first = plans[0].claims[0]
    assert (first.resource, first.need, first.victims[0].releases) == ("memory.pressure", 1, 1)
    assert uids(first) == ["free", "large", "small"]
    assert uids(plans[-1].claims[0]) == ["large", "small"]
    assert "until the average shows" in outcome(plans[1])


def test_pods_that_end_though_the_rule_may_not_evict_them_hold_nothing_up() -> None:
    seen = node(psi=30, evicting=frozenset({"prod", "elsewhere"}))
    assert threshold_evict.plan(seen, settings(PRESSURE), None).claims


def test_a_hard_threshold_does_not_wait_for_averages() -> None:
    hard = replace(PRESSURE, hard=True)
    seen = node(psi=30, evicting=frozenset({"free"}))
    assert threshold_evict.plan(seen, settings(hard), None).claims[0].forced


# ---- who goes


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ((), []),
        (PODS[:1], []),
        (PODS[6:], []),
        (PODS[:2], [True]),
        (PODS[3:], [False]),
        ((pod_view("kubernetes-best-effort", kube=KubeQoS.BEST_EFFORT),), []),
    ],
    ids=["none", "prod", "unknown", "mid", "best-effort", "unmeasured"],
)
def test_claims_are_made_only_on_pods_that_there_are(
    pods: tuple[PodView, ...], expected: list[bool]
) -> None:
    plan = threshold_evict.plan(node(5, pods=pods), settings(HARD), None)
    assert [claim.opt_in for claim in plan.claims] == expected
    assert ("has no pod to evict" in outcome(plan)) == (not expected)


def test_of_one_resource_the_forced_claim_counts_or_the_larger() -> None:
    large = replace(SOFT, percent=90, grace_seconds=0)
    small = replace(SOFT, percent=30, grace_seconds=0)
    seen = node(9)
    for thresholds in ((HARD, large, small), (small, large, HARD)):
        plan = threshold_evict.plan(seen, settings(*thresholds), None)
        assert [(claim.forced, round(claim.need / GIB)) for claim in plan.claims] == [(True, 3)] * 2
        assert len(plan.decisions) == 3
    plan = threshold_evict.plan(seen, settings(small, large), None)
    assert [round(claim.need / GIB) for claim in plan.claims] == [83, 83]


def test_thresholds_of_several_resources_claim_each() -> None:
    plan = threshold_evict.plan(node(9, psi=30), settings(HARD, PRESSURE), None)
    assert {claim.resource for claim in plan.claims} == {"memory", "memory.pressure"}


def test_the_same_threshold_twice_is_one() -> None:
    plan = threshold_evict.plan(node(9), settings(HARD, HARD), None)
    assert len(plan.decisions) == 1


def test_whoever_chooses_takes_best_effort_pods_first_and_no_more_than_is_needed() -> None:
    room = EvictionAllowance(left=10, per_minute=10)
    for available, expected in ((9, ["free", "large"]), (0, ["free", "large", "small", "mid"])):
        plan = threshold_evict.plan(node(available), settings(HARD), None)
        claims = [("threshold_evict", StrategyMode.ON, claim) for claim in plan.claims]
        choice = select_evictions(claims, room, refusal)
        assert [one.pod.uid for one in choice.evictions] == expected


# ---- always


@given(
    st.lists(
        st.tuples(
            st.integers(0, 100) | st.none(),
            st.integers(0, 100),
            st.sets(st.sampled_from([pod.uid for pod in PODS])),
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_claims_are_never_negative_and_plans_follow_from_what_they_are_given(
    seconds: list[tuple[int | None, int, set[str]]], known: bool
) -> None:
    thresholds = settings(SOFT, HARD, PRESSURE)
    memory = None
    for number, (available, psi, going) in enumerate(seconds):
        seen = node(
            available,
            after=20 * number,
            psi=psi,
            pods_known=known,
            evicting=frozenset(going),
        )
        plan = threshold_evict.plan(seen, thresholds, memory)
        assert plan == threshold_evict.plan(seen, thresholds, memory)
        assert known or not plan.claims
        for claim in plan.claims:
            assert claim.need > 0
            assert available is not None or claim.resource != "memory"
            assert set(uids(claim)) <= {"free", "large", "small", "refuses", "mid"}
            assert claim.opt_in or all(one.pod.qos is QoSClass.BE for one in claim.victims)
        memory = plan.memory
