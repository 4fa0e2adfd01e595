"""Pods are evicted in Koordinator's order: what costs least comes first."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_descheduler.objects.eviction_order import (
    ANNOTATION_DELETION_COST,
    cost,
    eviction_order,
)
from koord_descheduler.objects.observed_pod import ObservedPod, ObservedPodReader
from koord_model.keys import ANNOTATION_EVICTION_COST

from tests.descheduler.clusters import pod

PRIORITY = "koordinator.sh/priority-class"
QOS = "koordinator.sh/qosClass"


def read(**more: Any) -> ObservedPod:
    return ObservedPodReader().read(json.dumps(pod("p", "a", **more)).encode())


def labelled(**labels: str) -> ObservedPod:
    return read(labels=labels)


def test_each_rule_decides_where_those_before_it_do_not() -> None:
    batch = {PRIORITY: "koord-batch"}
    in_order = [
        labelled(**{PRIORITY: "koord-free"}),
        read(labels=batch | {QOS: "BE"}, status={"qosClass": "BestEffort"}),
        read(labels=batch | {QOS: "BE"}),
        read(labels=batch | {QOS: "LS"}),
        read(labels=batch, spec={"priority": 5}),
        labelled(**{PRIORITY: "koord-mid"}),
        read(),
        read(annotations={ANNOTATION_EVICTION_COST: "1"}),
        read(annotations={ANNOTATION_DELETION_COST: "1"}),
        labelled(**{QOS: "LSR"}),
        labelled(**{QOS: "LSE"}),
    ]
    keys = [eviction_order(one) for one in in_order]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("text", "number"),
    [("-7", -7), ("2147483647", 2**31 - 1), ("2147483648", 0), ("x", 0), ("", 0)],
)
def test_a_cost_is_a_whole_number_of_32_bits(text: str, number: int) -> None:
    one = read(annotations={ANNOTATION_DELETION_COST: text})
    assert cost(one, ANNOTATION_DELETION_COST) == number
