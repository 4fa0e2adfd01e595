"""Groups of accelerators that are all linked with each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from koord_devices.core.accelerator import DeviceLink

Pair = frozenset[int]
_MOST = 256
"""Groups of a node: with more, a tool's output is garbage."""


def links(pairs: Mapping[Pair, str]) -> dict[int, tuple[DeviceLink, ...]]:
    """For each minor, the largest groups that it is in, given how pairs of minors are linked.

    A reader takes a device and the peers of one link for a set in which each reaches each: of a
    ring or a mesh of cubes these are only parts.
    """
    found: dict[int, list[DeviceLink]] = defaultdict(list)
    for kind in sorted(set(pairs.values())):
        neighbours = _neighbours(pair for pair, of_kind in pairs.items() if of_kind == kind)
        cliques = _cliques(set(), set(neighbours), set(), neighbours)
        groups = sorted(map(sorted, islice(cliques, _MOST + 1)))
        if len(groups) > _MOST:
            continue
        for group in groups:
            for minor in group:
                peers = tuple(other for other in group if other != minor)
                found[minor].append(DeviceLink(peers, kind))
    return {minor: tuple(each) for minor, each in found.items()}


def _neighbours(pairs: Iterable[Pair]) -> dict[int, set[int]]:
    neighbours: dict[int, set[int]] = defaultdict(set)
    for pair in pairs:
        if len(pair) == 2:
            first, other = pair
            neighbours[first].add(other)
            neighbours[other].add(first)
    return neighbours


def _cliques(
    chosen: set[int], left: set[int], done: set[int], neighbours: Mapping[int, set[int]]
) -> Iterator[set[int]]:
    """All maximal sets of linked minors: Bron and Kerbosch's algorithm, with a pivot."""
    if not left and not done:
        yield chosen
        return
    pivot = max(sorted(left | done), key=lambda minor: len(neighbours[minor] & left))
    for minor in sorted(left - neighbours[pivot]):
        near = neighbours[minor]
        yield from _cliques(chosen | {minor}, left & near, done & near, neighbours)
        left = left - {minor}
        done = done | {minor}
