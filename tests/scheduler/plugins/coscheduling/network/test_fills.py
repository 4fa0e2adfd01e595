"""Each way to fill a domain, by itself: a plan takes the best of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from koord_scheduler.plugins.coscheduling.network.class_fill import fill_by_class
from koord_scheduler.plugins.coscheduling.network.exact_fill import exact_fill, work
from koord_scheduler.plugins.coscheduling.network.gather_spec import GatherNeeds
from koord_scheduler.plugins.coscheduling.network.greedy_fill import LeafCounts, greedy_fill
from koord_scheduler.plugins.coscheduling.network.planner import WorkBudget, new_domains
from koord_scheduler.plugins.coscheduling.network.problem import Counts, GatherProblem
from koord_scheduler.plugins.coscheduling.network.tree import Domain

from tests.scheduler.plugins.coscheduling.network.network_cases import (
    BLOCK,
    NO_NEEDS,
    RACK,
    fewest_new_domains,
    problem_of,
    problems,
    tree_of,
)

ALL = Domain(0, 0)
TREE = tree_of([[2, 2], [4]])
TWO_RACKS = tree_of([[2, 1]])
BY_TWO_IN_A_NODE = GatherNeeds(0, (1, 1, 1, 2))
BY_THREE_IN_A_RACK = GatherNeeds(0, (1, 1, 3, 2))


@given(problems())
def test_an_exact_fill_uses_the_fewest_new_domains(problem: GatherProblem) -> None:
    assume(not (problem.total + problem.bound.sum()) % np.lcm.reduce(problem.needs.multiples))
    found = exact_fill(problem, ALL)
    assert (None if found is None else new_domains(problem, ALL, found)) == fewest_new_domains(
        problem
    )
    if found is not None:
        assert all(problem.fits(leaf, np.array(counts)) for leaf, counts in found)
        placed = np.sum([counts for _, counts in found], axis=0)
        assert tuple(placed.tolist()) == problem.counts


def test_nodes_with_members_come_first_then_those_with_most_slots() -> None:
    problem = problem_of(tree_of([[3]]), (4,), [[1, 2, 4]], bound=[1, 0, 0])
    assert exact_fill(problem, Domain(RACK, 0)) == [(0, (1,)), (2, (3,))]


@pytest.mark.parametrize(
    ("counts", "layer", "expected"),
    [
        ((4,), RACK, 0),
        ((4,), BLOCK, 2 * 60_000 + 3 * (5 + 5) * 5),
        ((1, 1), BLOCK, 6 * 60_000 + 3 * (2 * 4 + 4 * 4) * 4),
        (((1 << 20) - 1,), 0, 1 << 62),
        (((1 << 20) - 2,), 0, 5 * 60_000 + 3 * (9 + 9 + 5 + 5 + 9) * ((1 << 20) - 1)),
    ],
)
def test_work_grows_with_parts_and_what_each_can_take(
    counts: Counts, layer: int, expected: int
) -> None:
    """Numbers too large to calculate with are too much work."""
    problem = problem_of(TREE, counts, [[2] * 8], [(1,)] * len(counts))
    assert work(problem, Domain(layer, 0)) == expected


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        # The class that fits on the fewest nodes, for its number, is the first.
        (
            problem_of(TWO_RACKS, (4, 1), [[4, 2, 0], [2, 0, 0]], [(1, 0), (1, 2)]),
            [(0, (3, 1)), (1, (1, 0))],
        ),
        # A node that may take four takes no fifth of another class.
        (
            problem_of(TWO_RACKS, (3, 2), [[9, 0, 0]], [(1,), (1,)], needs=BY_TWO_IN_A_NODE),
            [(0, (3, 1))],
        ),
        # What a domain has taken in vain is for the next one: four on its nodes make no six.
        (
            problem_of(TWO_RACKS, (6,), [[9, 0, 9]], needs=BY_THREE_IN_A_RACK, bound=[0, 1, 0]),
            [(2, (6,))],
        ),
    ],
)
def test_a_greedy_fill(problem: GatherProblem, expected: LeafCounts) -> None:
    assert greedy_fill(problem, ALL) == expected


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        # What one class took is no longer there for the next.
        (
            problem_of(TREE, (1, 2), [[6, 2, 0, 0, 0, 0, 0, 0]], [(3,), (2,)]),
            [(0, (1, 1)), (1, (0, 1))],
        ),
        # A rack that one class uses costs nothing to the next.
        (
            problem_of(
                TREE,
                (1, 1),
                [[0, 0, 1, 0, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0, 0, 0]],
                [(1, 0), (0, 1)],
                bound=[0, 0, 1, 0, 0, 0, 0, 0],
            ),
            [(2, (1, 1))],
        ),
        (problem_of(TREE, (1, 9), [[2] * 8], [(1,), (2,)]), None),
    ],
)
def test_a_fill_class_by_class(problem: GatherProblem, expected: LeafCounts | None) -> None:
    assert fill_by_class(problem, Domain(BLOCK, 0), (0, 1)) == expected


def test_work_that_was_done_is_not_there_again() -> None:
    budget = WorkBudget(10)
    assert [budget.affords(work) for work in (6, 6, 4, 1)] == [True, False, True, False]


def test_slots_of_one_class_are_counted_by_multiples() -> None:
    problem = problem_of(TWO_RACKS, (6,), [[3, 5, 4]], needs=BY_TWO_IN_A_NODE)
    assert [pods.tolist() for pods in problem.pods_in] == [[10], [10], [6, 4], [2, 4, 4]]
    assert problem_of(TWO_RACKS, (6,), [[3, 5, 4]], needs=NO_NEEDS).pods_in[0] == [12]
