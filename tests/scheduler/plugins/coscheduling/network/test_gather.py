"""Which domain and which nodes a gang gets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from koord_scheduler.plugins.coscheduling.network.explanation import why_not_gathered
from koord_scheduler.plugins.coscheduling.network.gather_spec import GatherNeeds
from koord_scheduler.plugins.coscheduling.network.planner import GatherPlan, gather, new_domains
from koord_scheduler.plugins.coscheduling.network.problem import GatherProblem
from koord_scheduler.plugins.coscheduling.network.tree import Domain

from tests.scheduler.plugins.coscheduling.network.network_cases import (
    ANY,
    BLOCK,
    NO_NEEDS,
    NODE,
    RACK,
    best_by_trying_all,
    problem_of,
    problems,
    tree_of,
)

TREE = tree_of([[2, 2], [4]])
EVEN_NODES = GatherNeeds(0, (1, 1, 1, 2))


def new(problem: GatherProblem, plan: GatherPlan) -> tuple[int, ...]:
    return new_domains(problem, plan.domain, plan.leaf_counts)


@given(problems())
def test_small_gangs_get_the_best_of_all_placements(problem: GatherProblem) -> None:
    plan, best = gather(problem), best_by_trying_all(problem)
    assert (plan is None) == (best is None)
    if plan is not None and best is not None:
        assert plan.is_optimal
        assert (plan.domain, new(problem, plan)) == best


@given(problems())
def test_a_plan_has_room_for_all_members_in_its_domain(problem: GatherProblem) -> None:
    for most_work in (0, 1 << 40):
        plan = gather(problem, most_work)
        if plan is None:
            assert why_not_gathered(problem) or not most_work
            continue
        first, end = problem.tree.leaves(plan.domain)
        assert all(first <= leaf < end for leaf, _ in plan.leaf_counts)
        assert all(problem.fits(leaf, np.array(counts)) for leaf, counts in plan.leaf_counts)
        placed = [sum(one) for one in zip(*(counts for _, counts in plan.leaf_counts), strict=True)]
        assert tuple(placed) == problem.counts


@pytest.mark.parametrize("seed", range(4))
def test_large_gangs_of_one_class_get_the_fewest_domains(seed: int) -> None:
    """256 pods, 512 nodes: the first best fit of each domain is up to a third worse."""
    chance = np.random.default_rng(seed)
    tree, free = tree_of([[16] * 8] * 4), chance.integers(0, 9, (1, 512)).tolist()
    problem = problem_of(tree, (256,), free)
    plan = gather(problem)
    assert plan is not None
    assert plan.is_optimal
    assert plan.domain.layer == BLOCK
    per_rack = np.sort(tree.sums(RACK, problem.slots[0])[tree.children(plan.domain)])[::-1]
    racks = int(np.searchsorted(np.cumsum(per_rack), 256)) + 1
    assert new(problem, plan)[0] == racks


def test_large_gangs_of_two_classes_are_within_5_percent_of_the_optimum() -> None:
    """By the number of racks and nodes, where looking for the optimum takes too long."""
    found, best = 0, 0
    for seed in range(4):
        problem = _two_classes(np.random.default_rng(seed))
        plan, optimum = gather(problem), gather(problem, 1 << 60)
        assert plan is not None
        assert optimum is not None
        assert (plan.is_optimal, optimum.is_optimal) == (False, True)
        assert plan.domain == optimum.domain
        found += sum(new(problem, plan))
        best += sum(new(problem, optimum))
    assert found <= 1.05 * best


def _two_classes(chance: np.random.Generator) -> GatherProblem:
    """160 pods, 512 nodes; most racks are in use."""
    leaves, is_busy = 512, np.repeat(chance.random(32) < 0.7, 16)
    gpus = np.where(is_busy, chance.integers(0, 9, leaves), 8)
    memory = chance.integers(0, 64, leaves)
    free = [gpus.tolist(), memory.tolist()]
    return problem_of(tree_of([[16] * 16] * 2), (80, 80), free, [(1, 4), (2, 1)])


def test_the_tightest_of_the_lowest_domains_comes_first() -> None:
    problem = problem_of(TREE, (4,), [[2, 3, 2, 2, 2, 2, 1, 1]])
    plan = gather(problem)
    assert plan is not None
    assert plan.domain == Domain(RACK, 1)


def test_pods_that_exist_come_before_tightness() -> None:
    problem = problem_of(TREE, (4,), [[2, 3, 2, 2, 2, 2, 1, 1]], existing=[0, 0, 0, 0, 0, 1, 0, 0])
    plan = gather(problem)
    assert plan is not None
    assert plan.domain == Domain(RACK, 2)


def test_bound_members_draw_the_others_near() -> None:
    problem = problem_of(TREE, (3,), [[1, 0, 9, 0, 9, 9, 9, 9]], bound=[1, 0, 0, 0, 0, 0, 0, 0])
    plan = gather(problem)
    assert plan is not None
    assert plan.domain == Domain(BLOCK, 0)
    assert dict(plan.leaf_counts) in ({0: (1,), 2: (2,)}, {2: (3,)})


@pytest.mark.parametrize(
    ("counts", "free", "needs", "bound", "expected"),
    [
        ((5,), [[2, 2, 1, 0, 1, 1, 1, 1]], GatherNeeds(RACK, ANY), [], ["rack", "5", "4"]),
        ((2,), [[1] * 8], GatherNeeds(RACK, ANY), [1, 0, 0, 0, 1, 0, 0, 0], ["block-0/rack-0"]),
        ((4,), [[1] * 8], GatherNeeds(RACK, ANY), [1, 0, 0, 0, 0, 0, 0, 0], ["beside 1", "for 2"]),
        ((4,), [[2] * 8], EVEN_NODES, [1, 0, 0, 0, 0, 0, 0, 0], ["5", "2", "node"]),
        ((3,), [[2] * 8], GatherNeeds(0, ANY, "pod"), [], ["pod"]),
        ((9,), [[1] * 8], NO_NEEDS, [], ["8", "9"]),
    ],
)
def test_a_reason_names_the_layer_and_the_numbers(
    counts: tuple[int, ...],
    free: list[list[int]],
    needs: GatherNeeds,
    bound: list[int],
    expected: list[str],
) -> None:
    problem = problem_of(TREE, counts, free, needs=needs, bound=bound)
    assert gather(problem) is None
    why = why_not_gathered(problem)
    assert all(one in why for one in expected), why


def test_a_reason_names_the_domain_with_most_room_of_many() -> None:
    free, needs = [1] * 9 + [3], GatherNeeds(RACK, ANY)
    why = why_not_gathered(problem_of(tree_of([[1] * 10]), (4,), [free], needs=needs))
    assert why.endswith("block-0/rack-9 has room for 3")


def test_multiples_hold_in_each_domain() -> None:
    needs = GatherNeeds(0, (1, 1, 3, 2))
    problem = problem_of(TREE, (6,), [[5, 5, 3, 3, 1, 1, 1, 1]], needs=needs)
    plan = gather(problem)
    assert plan is not None
    assert plan.domain == Domain(RACK, 0)
    assert sorted(sum(counts) for _, counts in plan.leaf_counts) == [2, 4]
    assert len(problem.tree.layers) - 1 == NODE
