"""Answers of eviction plugins as claims: whatever a plugin says, koordlet's rules hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_model.keys import ANNOTATION_EVICTION_POLICY, LABEL_EVICTION_ENABLED
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koordlet.qos_manager.core.settings import parse_settings
from koordlet.qos_manager.core.strategy import EvictionClaim, Plan, Strategy, StrategyMode
from koordlet.qos_manager.eviction.claims.plugin_claims import (
    ANNOTATION_SOFT_NOTICE,
    OLD_SECONDS,
    offered,
)
from koordlet.qos_manager.eviction.plugins.core.answers import (
    NamedVictim,
    PluginAnswer,
    PluginAnswers,
    PluginThreshold,
)
from koordlet.qos_manager.strategies import eviction_plugins
from koordlet.qos_manager.strategies.eviction_plugins import Settings

from tests.support.views import STEADY, FakeLatest, pod_view, view

AGREED = {LABEL_EVICTION_ENABLED: "true"}
PODS = (
    pod_view("agrees", qos=QoSClass.LS, priority=5000, labels=AGREED),
    pod_view("refuses", qos=QoSClass.LS, priority=5000),
    pod_view("prod", qos=QoSClass.LS, priority=9500, labels=AGREED),
    pod_view("batch", qos=QoSClass.BE, priority=5500),
    pod_view("free", qos=QoSClass.BE, priority=3500),
    pod_view("daemon", qos=QoSClass.BE, priority=3500, controller="DaemonSet"),
    pod_view(
        "ours",
        qos=QoSClass.BE,
        priority=3500,
        annotations={ANNOTATION_EVICTION_POLICY: '["MemoryEvict"]'},
    ),
)
ON = Settings(StrategyMode.ON)
SOFT = PluginThreshold(False, "cpu", 9, 8, 60, 60, ("agrees", "batch", "free"))
HARD = PluginThreshold(True, "memory", 1, 2, 0, 0, ("agrees",))


def answer(**more: Any) -> PluginAnswer:
    return PluginAnswer("numa", **{"asked_at": STEADY, "offered": 4} | more)


def plan(
    *answers: PluginAnswer, settings: Settings = ON, memory: object = None, **node: Any
) -> Plan:
    latest = FakeLatest({}, PluginAnswers(answers))
    seen = view(**{"pods": PODS, "latest": latest} | node)
    return eviction_plugins.plan(seen, settings, memory)


def uids(claim: EvictionClaim) -> list[str]:
    return [victim.pod.uid for victim in claim.victims]


def named(uid: str, *, forced: bool = True, notice: float = 0) -> NamedVictim:
    return NamedVictim(uid, '"why"', forced, notice)


def test_only_pods_that_may_be_evicted_for_the_plugin_are_offered() -> None:
    assert [pod.uid for pod in offered(PODS, "numa", 7999)] == ["agrees", "batch", "free"]
    assert [pod.uid for pod in offered(PODS, "MemoryEvict", 7999)][-1] == "ours"
    assert not offered(PODS, "numa", 7999, frozenset({"agrees", "ns/batch", "free"}))


def test_a_hard_threshold_claims_its_pod_at_once_and_a_soft_one_a_pod_in_our_order() -> None:
    (hard,) = plan(answer(met=HARD)).claims
    assert (uids(hard), hard.need, hard.forced, hard.rule) == (["agrees"], 1, True, "numa")
    assert hard.foreign
    assert hard.opt_in
    best_effort, everybody = plan(answer(met=replace(SOFT, notice_seconds=30))).claims
    assert (uids(best_effort), best_effort.opt_in) == (["free", "batch"], False)
    assert (uids(everybody), everybody.need) == (["free", "batch", "agrees"], 1)
    assert (everybody.notice_seconds, everybody.forced) == (30, False)


def test_within_its_grace_or_by_an_old_answer_nobody_goes() -> None:
    assert not plan(answer(met=replace(SOFT, lasted=59, targets=()))).claims
    assert not plan(answer(met=HARD, asked_at=STEADY - OLD_SECONDS - 1)).claims
    assert not plan(answer(met=HARD), pods_fresh=False).claims
    assert not plan(answer(problem="ThresholdMet: UNAVAILABLE")).claims


def test_of_named_pods_the_forced_go_together_and_others_one_at_a_time() -> None:
    claims = plan(
        answer(
            named=(
                named("free"),
                named("batch"),
                named("agrees", forced=False, notice=10),
                named("prod"),
                named("gone"),
            )
        )
    ).claims
    forced, soft = claims
    assert (uids(forced), forced.need, forced.forced) == (["free", "batch"], 2, True)
    assert (uids(soft), soft.need, soft.notice_seconds) == (["agrees"], 1, 10)


def test_until_it_is_asked_after_an_eviction_a_threshold_claims_nothing_more() -> None:
    memory = plan(answer(met=HARD)).memory
    going = plan(answer(met=HARD), memory=memory, evicting=frozenset({"agrees"}))
    rest = tuple(pod for pod in PODS if pod.uid != "agrees")
    targets = replace(HARD, targets=("free",))
    stale = plan(answer(met=targets), memory=going.memory, pods=rest, steady=STEADY + 1)
    assert not stale.claims
    fresh = answer(met=targets, asked_at=STEADY + 2)
    assert plan(fresh, memory=stale.memory, pods=rest, steady=STEADY + 2).claims


def test_a_pod_that_wants_a_warning_alone_is_not_evicted_by_soft_rules() -> None:
    only = pod_view("free", qos=QoSClass.BE, annotations={ANNOTATION_SOFT_NOTICE: "True"})
    soft = plan(answer(met=replace(SOFT, targets=("free",))), pods=(only,))
    assert ([notice.pod.uid for notice in soft.notices], soft.claims) == (["free"], ())
    assert plan(answer(named=(named("free"),)), pods=(only,)).claims


@pytest.mark.parametrize(
    ("mode", "claims"),
    [
        ("on", [False]),
        (True, [False]),
        ("shadow", [True]),
        ("off", []),
        (False, []),
        ("maybe", [True]),
    ],
)
def test_each_plugin_has_its_mode(mode: str | bool, claims: list[bool]) -> None:
    strategy = Strategy(
        "eviction_plugins", "", 1, Settings, eviction_plugins.settings, eviction_plugins.plan
    )
    slo = NodeSLO(strategies={"eviction_plugins": {"modes": {"numa": mode, "ok": "on"}}})
    settings = parse_settings(strategy, slo).settings
    assert (settings.mode("other"), settings.mode("ok")) == (StrategyMode.SHADOW, StrategyMode.ON)
    found = plan(answer(met=HARD), settings=settings)
    assert [claim.shadow for claim in found.claims] == claims
    *wrong, last = ["", *(decision.outcome for decision in found.decisions)]
    assert last.endswith("(shadow)") is (claims == [True])
    assert any("expected off or shadow or on" in outcome for outcome in wrong) is (mode == "maybe")
