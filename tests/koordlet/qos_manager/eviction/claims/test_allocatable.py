"""Eviction because more is promised to mid and batch pods than the node has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU, MID_CPU
from koord_model.qos import QoSClass
from koordlet.qos_manager.core.strategy import Plan, PodView, StrategyView
from koordlet.qos_manager.eviction.claims import allocatable
from koordlet.qos_manager.eviction.claims.thresholds import ThresholdBand

from tests.support.views import pod_view, view

BAND = ThresholdBand(80, 70)
BOTH = {"cpu": 1, BATCH_CPU: 100_000, MID_CPU: 100_000}


def batch(name: str, milli: int, **others: Any) -> PodView:
    return pod_view(name, qos=QoSClass.BE, requests={BATCH_CPU: milli}, **others)


def mid(name: str, milli: int) -> PodView:
    return pod_view(name, qos=QoSClass.LS, priority=7000, requests={"cpu": milli, MID_CPU: milli})


def planned(seen: StrategyView, highest: int = 7999) -> Plan:
    rule = allocatable.AllocatableRule("Rule", allocatable.CPU, "millicores", highest)
    return allocatable.plan(seen, rule, BAND)


@pytest.mark.parametrize(
    ("requested", "node", "band", "expected"),
    [
        # Koordinator's own examples.
        (85_000, 100_000, BAND, 15_000),
        (80_000, 100_000, BAND, 0),
        (80_001, 100_000, BAND, 10_001),
        # Nothing is left for them: all is too much.
        (85_000, 0, BAND, 85_000),
        (0, 0, BAND, 0),
        (1200, 1000, ThresholdBand(110, 100), 200),
    ],
)
def test_what_is_above_the_lower_threshold_is_to_be_freed(
    requested: float, node: float, band: ThresholdBand, expected: float
) -> None:
    assert allocatable.need(requested, node, band) == pytest.approx(expected)


bands = st.integers(1, 500).flatmap(
    lambda top: st.builds(ThresholdBand, st.just(top), st.integers(0, top - 1))
)


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.integers(0, 10**15), bands)
def test_need_is_never_negative_nor_above_what_is_promised_and_grows_with_it(
    one: int, other: int, node: int, band: ThresholdBand
) -> None:
    less, more = sorted((one, other))
    needs = [allocatable.need(requested, node, band) for requested in (less, more)]
    assert 0 <= needs[0] <= needs[1] <= more


def spec(**containers: object) -> dict[str, str]:
    return {ANNOTATION_EXTENDED_RESOURCE_SPEC: json.dumps({"containers": containers})}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (
            {"requests": {BATCH_CPU: 500}, "annotations": spec(a={"requests": {BATCH_CPU: "7"}})},
            500,
        ),
        ({}, 0),
        ({"listed": False, "annotations": spec(a={"requests": {BATCH_CPU: "7"}}, b={})}, 7),
        ({"listed": False, "annotations": {ANNOTATION_EXTENDED_RESOURCE_SPEC: "{"}}, None),
        ({"listed": False}, None),
    ],
    ids=["listed", "without requests", "by its annotation", "broken annotation", "not known"],
)
def test_what_a_pod_requests_of_batch_cpu(pod: dict[str, Any], expected: int | None) -> None:
    assert allocatable.batch_cpu(pod_view(qos=QoSClass.BE, **pod)) == expected


@pytest.mark.parametrize(
    ("pods", "node", "expected"),
    [
        ((batch("a", 2000), batch("b", 3000)), BOTH, {}),
        ((batch("a", 85_000), mid("b", 85_000)), BOTH, {BATCH_CPU: 15_000, MID_CPU: 15_000}),
        ((batch("a", 85_000), mid("b", 80_000)), BOTH, {BATCH_CPU: 15_000}),
        ((), BOTH, {}),
        ((pod_view("prod", qos=QoSClass.LS, requests={"cpu": 10**6}),), BOTH, {}),
        ((batch("a", 85_000, listed=False),), BOTH, {}),
        ((batch("a", 85_000),), {BATCH_CPU: 0}, {BATCH_CPU: 85_000}),
    ],
    ids=["few", "both", "one", "none", "prod", "not known", "nothing is left"],
)
def test_each_resource_is_compared_with_what_the_node_has(
    pods: tuple[PodView, ...], node: Mapping[str, int], expected: dict[str, float]
) -> None:
    plan = planned(view(pods=pods, allocatable=node))
    assert {one.resource: one.need for one in plan.claims} == pytest.approx(expected)


def test_only_pods_up_to_the_priority_count_and_those_that_free_something_go() -> None:
    pods = batch("small", 40_000), batch("large", 45_000), batch("none", 0), mid("mid", 85_000)
    (claim,) = planned(view(pods=pods, allocatable=BOTH), 5999).claims
    assert [one.pod.uid for one in claim.victims] == ["large", "small"]
    assert claim.decision.outcome == f"{BATCH_CPU} is oversold: pods are to be evicted"


@pytest.mark.parametrize(
    ("node", "others", "outcomes"),
    [
        (BOTH, {"pods_known": False}, ["it is not known yet which pods run"]),
        ({}, {}, ["it is not known what the Node has to allocate"]),
        (BOTH, {}, [f"{BATCH_CPU} is not oversold", f"no pod requests {MID_CPU}"]),
        (
            {"cpu": 64_000},
            {},
            [f"the Node does not say how much {BATCH_CPU} it has", f"no pod requests {MID_CPU}"],
        ),
    ],
    ids=["pods", "node", "enough", "no such resource"],
)
def test_the_decision_says_why_nothing_is_claimed(
    node: Mapping[str, int], others: dict[str, Any], outcomes: list[str]
) -> None:
    plan = planned(view(pods=(batch("a", 1000),), allocatable=node, **others))
    assert plan.claims == ()
    assert [one.outcome for one in plan.decisions] == [f"no eviction: {one}" for one in outcomes]
    if "not oversold" in outcomes[0]:
        numbers = {one.name: one.value for one in plan.decisions[0].given}
        assert plan.decisions[0].aspect == BATCH_CPU
        assert numbers == {
            "promised": 1000,
            "allocatable": 100_000,
            "lower": 70,
            "threshold": 80,
            "need": 0,
        }
