"""Which partition of a node's GPUs a pod gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.plugins.device_share.gpu_partitions import (
    HOPPER_PARTITIONS,
    GPUPartition,
    choose_partition,
    partitions_of_model,
)

ALL = frozenset(range(8))


def chosen(count: int, used: set[int], free: frozenset[int] = ALL) -> list[int] | None:
    found = choose_partition(HOPPER_PARTITIONS, count, free, frozenset(used))
    return None if found is None else sorted(found.minors)


@pytest.mark.parametrize(
    ("count", "used", "expected"),
    [
        (1, set(), [0]),
        (1, {0}, [1]),
        (1, {0, 1, 2}, [3]),
        (2, {0}, [2, 3]),
        (2, {0, 2}, [4, 5]),
        (2, {0, 2, 4, 5}, [6, 7]),
        (4, {0}, [4, 5, 6, 7]),
        (8, {0}, None),
        (3, set(), None),
    ],
)
def test_what_leaves_most_together_is_taken(
    count: int, used: set[int], expected: list[int] | None
) -> None:
    assert chosen(count, used) == expected


def test_cards_that_are_not_healthy_are_in_no_partition() -> None:
    assert chosen(2, set(), ALL - {0}) == [2, 3]


@given(st.integers(1, 8), st.sets(st.integers(0, 7)))
def test_it_is_one_of_the_partitions_and_free(count: int, used: set[int]) -> None:
    found = chosen(count, used)
    free = [one for one in HOPPER_PARTITIONS if len(one.minors) == count and not one.minors & used]
    assert (found is None) == (not free)
    assert found is None or frozenset(found) in {one.minors for one in free}


def test_a_higher_score_comes_first_and_restricted_pods_take_no_other() -> None:
    table = [GPUPartition(frozenset({0, 2}), 1), GPUPartition(frozenset({0, 1}), 5)]
    best = choose_partition(table, 2, ALL, frozenset())
    assert best is not None
    assert best.minors == {0, 1}
    other = choose_partition(table, 2, ALL, frozenset({1}))
    assert other is not None
    assert other.minors == {0, 2}
    assert choose_partition(table, 2, ALL, frozenset({1}), is_restricted=True) is None


def test_bandwidth_that_is_not_stated_is_not_enough() -> None:
    table = [GPUPartition(frozenset({0})), GPUPartition(frozenset({1}), bandwidth=400_000)]
    found = choose_partition(table, 1, ALL, frozenset(), bandwidth=300_000)
    assert found is not None
    assert found.minors == {1}
    assert choose_partition(table, 1, ALL, frozenset(), bandwidth=500_000) is None


@pytest.mark.parametrize(
    ("vendor", "model", "known"),
    [("", "H100", True), ("nvidia", "H20", True), ("amd", "H100", False), ("nvidia", "T4", False)],
)
def test_some_models_are_known(vendor: str, model: str, known: bool) -> None:
    assert (partitions_of_model(vendor, model) is not None) == known
