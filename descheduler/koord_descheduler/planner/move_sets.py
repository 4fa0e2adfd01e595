"""Sets of moves that count on each other, in waves. No IO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from koord_model.times import rfc3339

from koord_descheduler.planner.move import Move, MoveSet

Node = TypeVar("Node", str, int)


def with_sets(moves: Sequence[Move], at: float) -> tuple[Move, ...]:
    """The moves of a round at ``at``, pinned ones of a group as a set."""
    sets: dict[str, list[int]] = defaultdict(list)
    for place, move in enumerate(moves):
        if move.is_pinned and move.group:
            sets[move.group].append(place)
    found = list(moves)
    for group, places in sets.items():
        if len(places) > 1:
            waves = waves_of((moves[place].source, moves[place].target) for place in places)
            for place, wave in zip(places, waves, strict=True):
                move_set = MoveSet(f"{group} {rfc3339(at)}", wave, len(places))
                found[place] = moves[place]._replace(move_set=move_set)
    return tuple(found)


def waves_of(routes: Iterable[tuple[Node, Node]]) -> list[int]:
    """The waves of moves, by source and target, that find their room free in this order.

    A move is in the wave after those that leave its target before it. So all places of a wave can
    be reserved before any of its pods leaves: none counts on room that another one gives free.
    """
    free_after: dict[Node, int] = defaultdict(int)
    found = []
    for source, target in routes:
        found.append(free_after[target])
        free_after[source] = max(free_after[source], free_after[target] + 1)
    return found
