"""The search finds cheap sets of moves, and each can be carried out one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_descheduler.plugins.defragmentation.goals import (
    DefragmentationGoal,
    EmptyNodes,
    FreeSlots,
)
from koord_descheduler.plugins.defragmentation.packing import PackedPod, Packing
from koord_descheduler.plugins.defragmentation.search import SearchLimits, search
from koord_descheduler.plugins.defragmentation.steps import SearchStep

from tests.descheduler.plugins.defragmentation.packings import carried_out, needs, packed

LIMITS = SearchLimits(moves=10)


def moves(steps: list[SearchStep]) -> list[list[tuple[int, int, int]]]:
    return [[tuple(move) for move in step.moves] for step in steps]


def test_the_node_with_the_fewest_victims_is_freed_and_they_go_where_they_fit_best() -> None:
    packing = packed([8, 8, 8], [(0, needs(2)), (0, needs(2)), (1, needs(3)), (2, needs(4))])
    found = search(packing, FreeSlots(needs(8)), SearchLimits(10, units=1))
    assert moves(found) == [[(2, 1, 0)]]
    assert found[0][:2] == (1, 1)


def test_one_pod_with_much_cpu_makes_room_for_several_units() -> None:
    pods = [(0, needs(2, 1)), (0, needs(2, 1)), (1, needs(14)), (1, needs(1, 1))]
    found = search(packed([4, 16, 14], pods, cards=4), FreeSlots(needs(5, 1)), LIMITS)
    assert moves(found) == [[(2, 1, 2)]]
    assert found[0].units == 3


def test_another_pod_makes_room_for_a_victim_and_moves_first() -> None:
    pods = [(0, needs(5)), (1, needs(3)), (1, needs(3)), (2, needs(1))]
    packing = packed([8, 9, 4], pods)
    found = search(packing, FreeSlots(needs(8)), SearchLimits(10, units=1))
    assert moves(found) == [[(1, 1, 2), (0, 0, 1)]]


def test_two_pods_never_change_places() -> None:
    packing = packed([8, 8], [(0, needs(5)), (1, needs(4))])
    assert search(packing, FreeSlots(needs(4)), LIMITS) == []
    assert packing.pods[0].node == 0


def test_a_pod_that_costs_much_stays() -> None:
    pods = [(0, needs(4), 3.0), (1, needs(4), 1.0), (2, needs(4), math.inf)]
    found = search(packed([8, 8, 8], pods), FreeSlots(needs(8)), SearchLimits(10, units=1))
    assert moves(found) == [[(1, 1, 2)]] or moves(found) == [[(1, 1, 0)]]
    assert search(packed([8, 8], pods[:2]), FreeSlots(needs(8)), SearchLimits(9, value=2.0)) == []


def test_disruption_budgets_limit_victims() -> None:
    pods = [(0, needs(1)), (0, needs(1)), (1, needs(2))]
    goal = EmptyNodes()
    left = search(packed([4, 4], pods, budgets=[1], budget=0), goal, LIMITS)
    assert moves(left) == [[(2, 1, 0)]]
    assert search(packed([4, 4], pods[:2], budgets=[1], budget=0), goal, LIMITS) == []


def test_a_refused_step_is_undone_and_the_next_is_tried() -> None:
    packing = packed([8, 8, 8], [(0, needs(2)), (1, needs(3)), (2, needs(8))])
    asked = []

    def judge(step: SearchStep) -> frozenset[int] | None:
        asked.append(step.moves[0].pod)
        return frozenset({0}) if asked == [0] else None

    found = search(packing, FreeSlots(needs(8)), SearchLimits(10, units=1), judge)
    assert asked == [0, 1]
    assert moves(found) == [[(1, 1, 0)]]


GOALS: list[Any] = [
    EmptyNodes(),
    FreeSlots(needs(4)),
    FreeSlots(needs(2, 1)),
    FreeSlots(needs(1, 2)),
]


@st.composite
def packings(draw: st.DrawFn) -> list[Packing]:
    """The same packing three times; pods are put where they fit."""
    count = draw(st.integers(2, 5))
    cpu = draw(st.lists(st.sampled_from([4.0, 8.0]), min_size=count, max_size=count))
    kinds = [needs(1), needs(3), needs(1, 1), needs(1, 1, 300), needs(1, 1, 600), needs(2, 2)]
    costs = st.sampled_from([1.0, 2.0, math.inf])
    pod_kinds = st.tuples(st.integers(0, count - 1), st.sampled_from(kinds), costs)
    wished = draw(st.lists(pod_kinds, max_size=12))
    budgets = draw(st.lists(st.integers(0, 3), min_size=1, max_size=1))
    made = [packed(cpu, [], 3, budgets, 0) for _ in range(3)]
    for number, (node, asked, cost) in enumerate(wished):
        if made[0].fits(asked, np.array([node]))[0]:
            pod = PackedPod(asked, cost, 0 if number % 3 else -1)
            cards = made[0].cards_for(asked, node)
            for packing in made:
                packing.add(number, pod, node, cards)
    return made


@given(packings(), st.sampled_from(GOALS), st.integers(1, 6))
def test_units_are_free_after_moves_that_break_no_constraint(
    made: list[Packing], goal: DefragmentationGoal, most: int
) -> None:
    planned, executed, _ = made
    for packing in (planned, executed):
        for node in range(len(packing.on)):
            goal.take(packing, node, goal.units_on(packing, node))
    steps = search(planned, goal, SearchLimits(most))
    assert sum(len(step.moves) for step in steps) <= most
    carried_out(executed, goal, steps)
    assert np.array_equal(executed.free, planned.free)


@given(packings(), st.sampled_from(GOALS))
def test_a_unit_costs_no_more_than_the_cheapest_victims_that_fit_elsewhere(
    made: list[Packing], goal: DefragmentationGoal
) -> None:
    planned, simple, _ = made
    for packing in (planned, simple):
        for node in range(len(packing.on)):
            goal.take(packing, node, goal.units_on(packing, node))
    costs = [
        sum(simple.pods[number].pod.cost for number in candidate.victims)
        for node in range(len(simple.on))
        for candidate in goal.candidates(simple, node, 1)
        if fit_elsewhere(simple, goal, node, candidate.victims)
    ]
    steps = search(planned, goal, SearchLimits(100, units=1))
    if costs:
        assert steps[0].cost <= min(costs)


def fit_elsewhere(
    packing: Packing, goal: DefragmentationGoal, node: int, victims: list[int]
) -> bool:
    """True if BestFit finds other nodes for them, the hardest first."""
    mark = packing.mark()
    places = [
        (number, packing.evict(number).pod) for number in victims if packing.may_leave(number)
    ]
    goal.take(packing, node, 1)
    places.sort(key=lambda one: (-one[1].needs.gpu, -one[1].needs.amounts[0], one[0]))
    put = [packing.put(number, pod, node) for number, pod in places]
    packing.undo(mark)
    return len(put) == len(victims) and all(put)
