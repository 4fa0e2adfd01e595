"""Rules to compare ``bench.defragmentation`` with; each returns (moves, units) after each gain."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from koord_descheduler.plugins.defragmentation.goals import (
    DefragmentationGoal,
    EmptyNodes,
    FreeSlots,
)
from koord_descheduler.plugins.defragmentation.packing import (
    CPU,
    MEMORY,
    PackedNeeds,
    PackedPod,
    Packing,
)
from koord_scheduler.plugins.device_share.gpu_nodes import WHOLE

Trace = list[tuple[int, int]]
LITERAL_SECONDS = 10.0
"""CPU of a run of the literal rule, which looks at all pods again for each unit."""


class Task(NamedTuple):
    """A cluster, the goal, and at most so many moves and units."""

    packing: Packing
    goal: DefragmentationGoal
    moves: int
    units: int


def fewest_victims(task: Task) -> Trace:
    """For one unit after the other: the node with the fewest victims that all fit elsewhere."""
    packing, goal, most, units = task
    moves, trace = 0, Trace()
    known: dict[int, tuple[int, tuple[int, float, int, list[int]] | None]] = {}
    failed: dict[int, int] = {}
    while moves < most and len(trace) < units:
        options = []
        for node in range(len(packing.on)):
            version = int(packing.version[node])
            if node not in known or known[node][0] != version:
                found = next(iter(goal.candidates(packing, node, 1)), None)
                option = None
                if found is not None:
                    hardness = sum(_hardness(packing.pods[pod].pod) for pod in found.victims)
                    option = len(found.victims), hardness, node, found.victims
                known[node] = version, option
            option = known[node][1]
            if option is not None and failed.get(node) != version:
                options.append(option)
        for count, _, node, victims in sorted(options):
            if moves + count > most:
                return trace
            if _move_all(packing, goal, node, victims):
                moves += count
                trace.append((moves, len(trace) + 1))
                break
            failed[node] = int(packing.version[node])
        else:
            break
    return trace


def _move_all(packing: Packing, goal: DefragmentationGoal, node: int, victims: list[int]) -> bool:
    mark = packing.mark()
    left = []
    for number in victims:
        if not packing.may_leave(number):
            packing.undo(mark)
            return False
        left.append((number, packing.evict(number).pod))
    goal.take(packing, node, 1)
    for number, pod in left:
        if not packing.put(number, pod, node):
            packing.undo(mark)
            return False
    return True


def kai_literal(task: Task) -> Trace:
    """As KAI searches: victims are added youngest first, and tried together on the last's node."""
    packing, goal, most, units = task
    moves, trace, end = 0, Trace(), time.process_time() + LITERAL_SECONDS
    while moves < most and len(trace) < units and time.process_time() < end:
        victims: dict[int, list[int]] = defaultdict(list)
        for number in sorted(packing.pods, reverse=True):
            if number < 0 or not packing.may_leave(number):
                continue
            node = packing.pods[number].node
            victims[node].append(number)
            if _frees_unit(packing, goal, node, victims[node]) and _move_all(
                packing, goal, node, victims[node]
            ):
                moves += len(victims[node])
                trace.append((moves, len(trace) + 1))
                break
        else:
            break
    return [point for point in trace if point[0] <= most]


def _frees_unit(packing: Packing, goal: DefragmentationGoal, node: int, victims: list[int]) -> bool:
    mark = packing.mark()
    for number in victims:
        packing.remove(number)
    found = goal.units_on(packing, node) > 0
    packing.undo(mark)
    return found


def fragmentation_aware(task: Task) -> Trace:
    """The pod whose leaving lowers most the deviation of its node's CPU, memory and GPU shares.

    It goes where BestFit puts it; units are taken as they come.
    """
    packing, goal, most, units = task
    choose = _uneven_pods(packing)
    gained, trace, tried, moves = 0, Trace(), set[int](), 0
    while moves < most and gained < units:
        number = choose(tried)
        if number is None:
            break
        tried.add(number)
        mark = packing.mark()
        place = packing.evict(number)
        if not packing.put(number, place.pod, place.node):
            packing.undo(mark)
            continue
        moves += 1
        found = goal.units_on(packing, place.node)
        if found:
            goal.take(packing, place.node, found)
            gained += found
            trace.append((moves, gained))
    return trace


def _uneven_pods(packing: Packing) -> Callable[[set[int]], int | None]:
    known: dict[int, tuple[int, list[tuple[float, int]]]] = {}

    def gains(node: int) -> list[tuple[float, int]]:
        version = int(packing.version[node])
        if node not in known or known[node][0] != version:
            now = _deviation(packing, node)
            found = (
                (now - _deviation(packing, node, packing.pods[number].pod), number)
                for number in packing.on[node]
                if packing.may_leave(number)
            )
            known[node] = version, sorted(found, reverse=True)
        return known[node][1]

    def choose(tried: set[int]) -> int | None:
        best: tuple[float, int] | None = None
        for node in range(len(packing.on)):
            found = next((gain for gain in gains(node) if gain[1] not in tried), None)
            if found is not None and found[0] > 0 and packing.may_leave(found[1]):
                best = found if best is None else max(best, found)
        return best[1] if best is not None else None

    return choose


def _deviation(packing: Packing, node: int, without: PackedPod | None = None) -> float:
    gpus = float(packing.total_cards[node].sum())
    needs = without.needs if without is not None else None
    used = [
        (total[node] - free[node] - (needs.amounts[resource] if needs else 0.0)) / total[node]
        for resource, total, free in zip((CPU, MEMORY), packing.total, packing.free, strict=True)
    ]
    used.append((gpus - packing.free_cards[node].sum() - (needs.gpu if needs else 0)) / gpus)
    return float(np.std(used))


def _hardness(pod: PackedPod) -> float:
    return pod.needs.gpu / WHOLE + pod.needs.amounts[CPU] / 1e6


def most_empty_nodes(task: Task) -> float:
    """Nodes that moves could empty at most.

    A pod that needs all cards of the largest nodes has a place only where they are all free: on
    few nodes. Beyond those each such victim costs a move more, which frees another one. This is
    the least of the bounds that a price of a move, and of such a place, gives (weak duality).
    """
    packing, goal, most, _ = task
    largest = float(packing.total_cards.sum(axis=1).max())
    victims, large, kinds = [], [], set[PackedNeeds]()
    for node in range(len(packing.on)):
        for candidate in goal.candidates(packing, node, 1):
            needs = [packing.pods[number].pod.needs for number in candidate.victims]
            victims.append(len(needs))
            large.append(sum(each.gpu >= largest for each in needs))
            kinds.update(each for each in needs if each.gpu >= largest)
    fits = [packing.fits(needs, np.arange(len(packing.on))) & ~packing.closed for needs in kinds]
    places = int(np.any(fits, axis=0).sum()) if fits else 0
    costs, extra = np.array(victims, np.float64), np.array(large, np.float64)
    bounds = (
        np.maximum(0.0, 1.0 - move * costs - place * extra).sum() + move * most + place * places
        for move in np.linspace(0.0, 1.0, 41)
        for place in move * np.linspace(0.0, 1.0, 9)
    )
    return float(min(bounds))


def most_units(task: Task) -> float:
    """Units that moves could gain at most if victims always had a place.

    Nodes' cheapest steps come first. What is free in all is the other bound.
    """
    packing, goal, most, units = task
    if isinstance(goal, EmptyNodes):
        return most_empty_nodes(task)
    steps, cap = [], float(units)
    if isinstance(goal, FreeSlots):
        cap = min(cap, packing.free_cards.sum() / WHOLE / goal.needs.cards)
        if goal.needs.amounts[CPU]:
            cap = min(cap, packing.free[CPU].sum() / goal.needs.amounts[CPU])
    for node in range(len(packing.on)):
        points = [(0, 0)]
        points += [(len(one.victims), one.units) for one in goal.candidates(packing, node, 8)]
        at = 0
        while at < len(points) - 1:  # the upper hull
            slope, to = max(
                ((points[end][1] - points[at][1]) / (points[end][0] - points[at][0]), end)
                for end in range(at + 1, len(points))
            )
            steps.append((slope, points[to][0] - points[at][0]))
            at = to
    total, left = 0.0, most
    for slope, cost in sorted(steps, reverse=True):
        total += slope * min(cost, left)
        left -= min(cost, left)
    return min(total, cap)
