"""Evicting pods past thresholds of our own: soft ones with grace and notice, hard ones at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_model.keys import LABEL_EVICTION_ENABLED
from koord_model.node_slo import NodeSLO
from koord_model.qos import KubeQoS, QoSClass
from koordlet.qos_manager.core.settings import parse_settings
from koordlet.qos_manager.core.strategy import EvictionClaim, Plan, PodView, Strategy, StrategyView
from koordlet.qos_manager.eviction.claims.node_thresholds import (
    NodeSignal,
    NodeThreshold,
    PressureAverage,
)
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
    available: float | None = 50, after: float = 0, *, psi: float | None = None, **others: Any
) -> StrategyView:
    """A node of 100 GiB, ``after`` seconds."""
    values = {} if available is None else {("node_memory_usage",): (100 - available) * GIB}
    used = {uid: amount * GIB for uid, amount in MEMORY.items()}
    latest = FakeLatest(values, memory_info(100 * GIB), cpu_info(10), pod_memory_usage=used)
    history = FakeHistory({} if psi is None else {("node_psi", "mem", "avg10", "some"): stats(psi)})
    others.setdefault("pods", PODS)
    return view(latest=latest, history=history, steady=STEADY + after, **others)


def planned(seen: StrategyView, *thresholds: NodeThreshold, memory: object = None) -> Plan:
    return threshold_evict.plan(seen, Settings(thresholds), memory)


def uids(claim: EvictionClaim) -> list[str]:
    return [victim.pod.uid for victim in claim.victims]


def outcome(plan: Plan) -> str:
    (decision,) = plan.decisions
    return decision.outcome


def test_thresholds_are_read_from_the_node_slo_s_extensions() -> None:
    module: Any = threshold_evict
    strategy = Strategy("threshold_evict", module.GATE, 1.0, Settings, module.settings, module.plan)
    listed = [
        {"signal": "memory.available", "percent": 10, "grace_seconds": 120},
        {"signal": "memory.available", "quantity": 536870912, "hard": True},
    ]
    asked: dict[str, Any] = {"thresholds": listed, "priority": 5999}
    found = parse_settings(strategy, NodeSLO(strategies={"threshold_evict": asked}))
    assert (found.ignored, found.settings.priority) == ((), 5999)
    assert [str(one) for one in found.settings.thresholds] == [
        "soft memory.available < 10 %",
        "hard memory.available < 512 MiB",
    ]
    asked = {"thresholds": [{"signal": "cpu.usage"}], "priority": 9000}
    found = parse_settings(strategy, NodeSLO(strategies={"threshold_evict": asked}))
    assert (found.settings, len(found.ignored)) == (Settings(), 2)
    assert outcome(planned(node(1))) == "off: no thresholds are set"


def test_a_hard_threshold_claims_at_once_and_may_not_wait() -> None:
    plan = planned(node(9), HARD)
    first, second = plan.claims
    for claim in plan.claims:
        assert (claim.rule, claim.resource) == ("ThresholdEvict", "memory")
        assert claim.need == pytest.approx(3 * GIB)
        assert (claim.forced, claim.notice_seconds) == (True, 0.0)
    assert (first.opt_in, uids(first)) == (False, ["free", "large", "small"])
    assert (second.opt_in, uids(second)) == (True, ["free", "large", "small", "refuses", "mid"])
    assert plan.notices == ()
    assert outcome(plan).startswith("hard memory.available < 10 %: it is passed, and pods")
    below = planned(node(10), HARD)
    assert below.claims == ()
    assert outcome(below) == "hard memory.available < 10 %: no eviction, for it is not passed"


def rounds(threshold: NodeThreshold, *views: StrategyView) -> list[Plan]:
    plans: list[Plan] = []
    for seen in views:
        plans.append(planned(seen, threshold, memory=plans[-1].memory if plans else None))
    return plans


@pytest.mark.parametrize(
    ("available", "seconds", "claims", "warned"),
    [
        ([19] * 5, [0, 30, 59.9, 60, 61], [0, 0, 0, 2, 2], [2, 0, 0, 0, 0]),
        # A break begins a new episode, and so does what is not known for long.
        ([19, 19, 21, 19, 19, 19], [0, 50, 55, 60, 119, 120], [0] * 5 + [2], [2, 0, 0, 2, 0, 0]),
        ([19, None, 19], [0, 31, 61], [0, 0, 0], [2, 0, 2]),
        ([19, 19, None, 19], [0, 40, 61, 62], [0, 0, 0, 2], [2, 0, 0, 0]),
    ],
)
def test_a_soft_threshold_claims_after_its_grace_period(
    available: list[float | None], seconds: list[float], claims: list[int], warned: list[int]
) -> None:
    plans = rounds(SOFT, *(node(*one) for one in zip(available, seconds, strict=True)))
    assert [len(one.claims) for one in plans] == claims
    assert [len(one.notices) for one in plans] == warned
    assert not any(claim.forced for one in plans for claim in one.claims)


def test_pods_that_would_go_first_are_warned_once_when_grace_begins() -> None:
    # 3 GiB are needed: of the lowest class is free with 1, then large with 5.
    first, more = rounds(SOFT, node(19), node(10, 1))
    assert [(one.pod.uid, one.reason, one.of_eviction) for one in first.notices] == [
        ("free", "MayBeEvicted", True),
        ("large", "MayBeEvicted", True),
    ]
    assert "soft memory.available < 20 %" in first.notices[0].message
    # Pods that are not labelled for eviction are not warned, nor is production.
    assert [one.pod.uid for one in more.notices] == ["small", "mid"]


def test_while_something_is_not_known_nothing_is_claimed_nor_forgotten() -> None:
    unknown = node(19, 59, pods_known=False), node(None, 60)
    _, *plans = rounds(SOFT, node(19), node(19, 40), *unknown, node(19, 61))
    assert [len(one.claims) for one in plans] == [0, 0, 0, 2]
    soft = "soft memory.available < 20 %: "
    assert [outcome(one) for one in plans] == [
        soft + "it is passed, and pods are to be evicted if it is for 60 s",
        "no eviction: it is not known yet which pods run",
        soft + "no eviction, for it is not known",
        soft + "it is passed, and pods are to be evicted",
    ]


def test_without_grace_it_claims_at_once_with_its_notice() -> None:
    found = planned(node(19), replace(SOFT, grace_seconds=0, notice_seconds=30))
    assert [claim.notice_seconds for claim in found.claims] == [30, 30]
    assert found.notices == ()


def test_pressure_takes_one_pod_and_then_waits_for_the_average_to_show_it() -> None:
    going, left = frozenset({"free"}), tuple(pod for pod in PODS if pod.uid != "free")
    later = [node(psi=30, after=second, pods=left) for second in (2, 10.9, 11)]
    plans = rounds(PRESSURE, node(psi=30), node(psi=30, after=1, evicting=going), *later)
    assert [len(one.claims) for one in plans] == [2, 0, 0, 0, 2]
    first = plans[0].claims[0]
    assert (first.resource, first.need, first.victims[0].releases) == ("memory.pressure", 1, 1)
    assert uids(first) == ["free", "large", "small"]
    assert uids(plans[-1].claims[0]) == ["large", "small"]
    assert "until the average shows" in outcome(plans[1])
    # A hard threshold does not wait, and pods that the rule may not evict hold nothing up.
    assert planned(node(psi=30, evicting=going), replace(PRESSURE, hard=True)).claims[0].forced
    assert planned(node(psi=30, evicting=frozenset({"prod", "elsewhere"})), PRESSURE).claims


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
    plan = planned(node(5, pods=pods), HARD)
    assert [claim.opt_in for claim in plan.claims] == expected
    assert ("has no pod to evict" in outcome(plan)) == (not expected)


LARGE, SMALL = (replace(SOFT, percent=percent, grace_seconds=0) for percent in (90, 30))


@pytest.mark.parametrize(
    ("thresholds", "claims", "decisions"),
    [
        ((HARD, LARGE, SMALL), [("memory", True, 3)] * 2, 3),
        ((SMALL, LARGE, HARD), [("memory", True, 3)] * 2, 3),
        ((SMALL, LARGE), [("memory", False, 83)] * 2, 2),
        ((HARD, PRESSURE), [("memory", True, 3)] * 2 + [("memory.pressure", False, 0)] * 2, 2),
        ((HARD, HARD), [("memory", True, 3)] * 2, 1),
    ],
)
def test_of_one_resource_the_forced_claim_counts_or_the_larger(
    thresholds: tuple[NodeThreshold, ...], claims: list[tuple[str, bool, int]], decisions: int
) -> None:
    plan = planned(node(9, psi=30), *thresholds)
    found = [(claim.resource, claim.forced, round(claim.need / GIB)) for claim in plan.claims]
    assert (found, len(plan.decisions)) == (claims, decisions)
