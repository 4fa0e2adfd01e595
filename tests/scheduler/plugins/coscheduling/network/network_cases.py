"""Gangs and trees of domains made by chance, and the best placement by trying all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from koord_scheduler.plugins.coscheduling.network.gather_spec import GatherNeeds
from koord_scheduler.plugins.coscheduling.network.planner import new_domains
from koord_scheduler.plugins.coscheduling.network.problem import Counts, GatherProblem
from koord_scheduler.plugins.coscheduling.network.tree import Domain, NetworkTree

LAYERS = ("cluster", "block", "rack", "node")
BLOCK, RACK, NODE = 1, 2, 3
ANY = (1,) * len(LAYERS)
NO_NEEDS = GatherNeeds(0, ANY)


def tree_of(blocks: Sequence[Sequence[int]]) -> NetworkTree:
    """A tree with blocks of racks, each with so many nodes."""
    racks = [size for block in blocks for size in block]
    leaves = sum(racks)
    sizes = [[leaves], [sum(block) for block in blocks], racks, [1] * leaves]
    starts = [np.cumsum([0, *one]) for one in sizes]
    names = [
        [f"{layer}-{place}" for place in range(len(one))]
        for layer, one in zip(LAYERS, sizes, strict=True)
    ]
    return NetworkTree(LAYERS, np.arange(leaves), starts, names)


def problem_of(
    tree: NetworkTree,
    counts: Counts,
    free: Sequence[Sequence[int]],
    requests: Sequence[Sequence[int]] = ((1,),),
    *,
    needs: GatherNeeds = NO_NEEDS,
    bound: Sequence[int] = (),
    existing: Sequence[int] = (),
) -> GatherProblem:
    """``free`` by resource and leaf, ``requests`` by class and resource, above 0 somewhere."""
    asked, room = np.array(requests, np.float64), np.array(free, np.float64)
    slots = [
        np.min([np.floor(room[r] / one[r]) for r in np.flatnonzero(one)], axis=0) for one in asked
    ]
    there = np.zeros(len(tree.rows), np.intp) + (bound or 0)
    near = there + (existing or 0)
    return GatherProblem(tree, needs, counts, np.array(slots, np.intp), asked, room, there, near)


@st.composite
def problems(draw: st.DrawFn) -> GatherProblem:
    """Small ones: all that makes a difference happens often."""
    racks = st.lists(st.integers(1, 3), min_size=1, max_size=2)
    tree = tree_of(draw(st.lists(racks, min_size=1, max_size=3)))
    leaves = len(tree.rows)
    counts = draw(st.sampled_from([(1,), (2,), (3,), (4,), (6,), (1, 1), (1, 3), (2, 2), (3, 2)]))
    each = st.tuples(st.integers(1, 3), st.integers(0, 2))
    requests = draw(st.lists(each, min_size=len(counts), max_size=len(counts)))
    room = st.lists(st.integers(0, 6), min_size=leaves, max_size=leaves)
    multiples = draw(
        st.one_of(st.just(ANY), st.tuples(*[st.sampled_from([1, 1, 1, 2, 3])] * len(LAYERS)))
    )
    few = st.lists(st.sampled_from([0, 0, 0, 0, 1]), min_size=leaves, max_size=leaves)
    return problem_of(
        tree,
        counts,
        [draw(room), draw(room)],
        requests,
        needs=GatherNeeds(draw(st.sampled_from([0, 0, BLOCK, RACK, NODE])), multiples),
        bound=draw(st.one_of(st.just(()), few)),
        existing=draw(few),
    )


class BestPlacement(NamedTuple):
    """The domain of the best placement, and how many domains it uses newly by layer."""

    domain: Domain
    new: tuple[int, ...]


def best_by_trying_all(problem: GatherProblem) -> BestPlacement | None:
    """By definition: all placements are looked at; ``None``: there is none."""
    best: dict[Domain, tuple[int, ...]] = {}
    for placed in _placements(problem, 0, problem.counts):
        domain = _gathering(problem, placed)
        if domain is not None and _keeps_multiples(problem, placed):
            new = new_domains(
                problem, domain, [(n, one) for n, one in enumerate(placed) if any(one)]
            )
            best[domain] = min(best.get(domain, new), new)
    if not best:
        return None
    domain = min(best, key=lambda one: (-one.layer, *_preference(problem, one)))
    return BestPlacement(domain, best[domain])


def fewest_new_domains(problem: GatherProblem) -> tuple[int, ...] | None:
    """The best of all placements anywhere; ``None``: there is none."""
    fills = (
        [(leaf, counts) for leaf, counts in enumerate(placed) if any(counts)]
        for placed in _placements(problem, 0, problem.counts)
        if _keeps_multiples(problem, placed)
    )
    return min((new_domains(problem, Domain(0, 0), fill) for fill in fills), default=None)


def _placements(
    problem: GatherProblem, leaf: int, remaining: Counts
) -> Iterator[tuple[Counts, ...]]:
    if leaf == len(problem.tree.rows):
        if not any(remaining):
            yield ()
        return
    for counts in itertools.product(*(range(one + 1) for one in remaining)):
        if (problem.requests.T @ counts <= problem.free[:, leaf]).all():
            rest = tuple(have - take for have, take in zip(remaining, counts, strict=True))
            yield from ((counts, *others) for others in _placements(problem, leaf + 1, rest))


def _pods(placed: Sequence[Counts]) -> np.ndarray:
    return np.array([sum(one) for one in placed])


def _gathering(problem: GatherProblem, placed: Sequence[Counts]) -> Domain | None:
    """The lowest domain that all members are in, if that is low enough."""
    used = np.flatnonzero(_pods(placed) + problem.bound).tolist()
    for layer in range(NODE, problem.needs.must - 1, -1):
        domains = {problem.tree.at(layer, leaf) for leaf in used}
        if len(domains) == 1:
            return domains.pop()
    return None


def _keeps_multiples(problem: GatherProblem, placed: Sequence[Counts]) -> bool:
    """Where new pods are; and of the gang as a whole."""
    multiples = np.array(problem.needs.multiples)
    new = [problem.tree.sums(layer, _pods(placed)) for layer in range(len(LAYERS))]
    all_pods = [one + bound for one, bound in zip(new, problem.bound_in, strict=True)]
    return not (new[0][0] + problem.bound.sum()) % np.lcm.reduce(multiples) and not any(
        (pods[one > 0] % multiple).any()
        for pods, one, multiple in zip(all_pods, new, multiples, strict=True)
    )


def _preference(problem: GatherProblem, domain: Domain) -> tuple[object, ...]:
    """Koordinator's order of the domains of one layer."""
    leaf = problem.tree.leaves(domain)[0]
    above = [problem.tree.at(layer, leaf) for layer in range(domain.layer, -1, -1)]
    existing = [-int(problem.existing_in[layer][place]) for layer, place in above]
    rooms = [float(problem.rooms_in[layer][place]) for layer, place in above]
    return (*existing, *rooms, problem.tree.names[domain.layer][domain.place])
