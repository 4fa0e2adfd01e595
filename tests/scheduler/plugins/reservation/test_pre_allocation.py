"""Which pods make room for a reservation on a node."""

from __future__ import annotations

from typing import Any

import pytest
from koord_scheduler.plugins.reservation.pre_allocation import (
    NO_POD,
    PreAllocatablePod,
    pre_allocation_answer,
)
from koord_scheduler.plugins.reservation.reservation import RESTRICTED, PreAllocation, Reservation

HAS = {"cpu": 4000, "memory": 8}
FREE = {"cpu": 1000.0, "memory": 8.0, "pods": 5.0}


def pod(name: str, cpu: int, priority: int = 0, **more: int) -> PreAllocatablePod:
    return PreAllocatablePod(name, name, {"cpu": cpu, "pods": 1, **more}, priority)


def answer(
    policy: PreAllocation, *pods: PreAllocatablePod, free: dict[str, float] = FREE, **more: Any
) -> tuple[list[str], tuple[str, ...]]:
    one = Reservation(
        "r",
        "u",
        allocatable=HAS,
        resources=frozenset(HAS),
        policy=RESTRICTED,
        pre_allocation=policy,
    )
    found = pre_allocation_answer(one, free, pods, **more)
    assert found.fits is not bool(found.reasons)
    return [each.key for each in found.pods], found.reasons


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (PreAllocation(), ["full"]),
        (PreAllocation(cluster=True), ["full"]),  # one alone is chosen by how full it is
        (PreAllocation(multiple=True), ["full"]),
        (PreAllocation(cluster=True, multiple=True), ["first"]),
    ],
)
def test_the_order_of_pods(policy: PreAllocation, expected: list[str]) -> None:
    pods = pod("a", 3000, -1), pod("first", 3000, 7), pod("full", 4000)
    assert answer(policy, *pods) == (expected, ())


@pytest.mark.parametrize("multiple", [True, False])
def test_a_pod_that_has_nothing_that_is_reserved_makes_no_room(multiple: bool) -> None:
    other = PreAllocatablePod("other", "u", {"example.com/card": 1})
    free = {**FREE, "cpu": 4000.0}
    assert answer(PreAllocation(multiple=multiple), other, free=free) == ([], ())


def test_pods_stay_and_count() -> None:
    free = {**FREE, "pods": 0.0}
    for multiple in (True, False):
        _, reasons = answer(PreAllocation(multiple=multiple), pod("a", 3000), free=free)
        assert reasons == ("Insufficient pods by node",)


def test_reasons_are_what_is_lacking_even_with_pods() -> None:
    free = {**FREE, "memory": 7.0}
    small = pod("a", 2000, memory=1)
    assert answer(PreAllocation(), small, free=free)[1] == ("Insufficient cpu by node",)
    alone = ("Insufficient cpu by node", "Insufficient memory by node")
    assert answer(PreAllocation(), pod("large", 5000, memory=1), free=free)[1] == alone


def test_without_a_pod_that_is_required_it_does_not_fit() -> None:
    free = {**FREE, "cpu": 4000.0}
    for prefers_none in (True, False):
        policy = PreAllocation(is_required=True)
        assert answer(policy, free=free, prefers_none=prefers_none) == ([], (NO_POD,))
