"""Eviction because too much is promised: the arithmetic."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU
from koord_model.qos import QoSClass
from koordlet.qos_manager.eviction.claims import allocatable
from koordlet.qos_manager.eviction.claims.thresholds import ThresholdBand

from tests.support.views import pod_view


@pytest.mark.parametrize(
    ("requested", "node", "band", "expected"),
    [
        # Koordinator's own examples.
        (85_000, 100_000, ThresholdBand(80, 70), 15_000),
        (80_000, 100_000, ThresholdBand(80, 70), 0),
        (80_001, 100_000, ThresholdBand(80, 70), 10_001),
        (5, 100, ThresholdBand(80, 70), 0),
        # Nothing is left for them: all is too much.
        (85_000, 0, ThresholdBand(80, 70), 85_000),
        (0, 0, ThresholdBand(80, 70), 0),
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


@pytest.mark.parametrize(("priority", "message"), [(None, "is not set"), (8000, "0 to 7999")])
def test_promises_to_production_are_not_evicted_for(priority: int | None, message: str) -> None:
    assert allocatable.highest(7999, "a") == 7999
    with pytest.raises(ValueError, match=f"resourceUsedThresholdWithBE.a .*{message}"):
        allocatable.highest(priority, "a")


def spec(**containers: object) -> dict[str, str]:
    text = json.dumps({"containers": containers})
    return {ANNOTATION_EXTENDED_RESOURCE_SPEC: text}


def test_a_listed_pod_requests_what_its_specification_says() -> None:
    asks = {"requests": {BATCH_CPU: "700"}}
    pod = pod_view(qos=QoSClass.BE, requests={BATCH_CPU: 500}, annotations=spec(main=asks))
    assert allocatable.batch_cpu(pod) == 500
    assert allocatable.batch_cpu(pod_view()) == 0


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (spec(a={"requests": {BATCH_CPU: "700"}}, b={"requests": {BATCH_CPU: 1}}, c={}), 701),
        ({ANNOTATION_EXTENDED_RESOURCE_SPEC: "{"}, None),
        ({}, None),
    ],
)
def test_a_pod_that_no_list_told_of_says_it_itself(
    annotations: dict[str, str], expected: int | None
) -> None:
    pod = pod_view(qos=QoSClass.BE, listed=False, annotations=annotations)
    assert allocatable.batch_cpu(pod) == expected
