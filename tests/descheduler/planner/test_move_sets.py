"""Moves of a set go in waves, whose places can all be reserved before any of their pods leaves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from koord_descheduler.planner.move_sets import waves_of

FULL = 6
"""Room of each node."""
Moves = list[tuple[int, int, int]]


@st.composite
def sets(draw: st.DrawFn) -> tuple[list[int], Moves]:
    """Free room of nodes, and moves (size, source, target) that find theirs free in order."""
    pods = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=14))
    free, placed = [FULL] * 4, []
    for size, node in pods:
        if size <= free[node]:
            free[node] -= size
            placed.append((size, node))
    now, moves = list(free), []
    for size, source in draw(st.permutations(placed)):
        targets = [node for node in range(4) if node != source and now[node] >= size]
        if targets:
            target = draw(st.sampled_from(targets))
            moves.append((size, source, target))
            now[target] -= size
            now[source] += size
    return free, moves


@given(sets())
def test_all_places_of_a_wave_are_free_before_its_pods_leave(
    found: tuple[list[int], Moves],
) -> None:
    free, moves = found
    waves = waves_of((source, target) for _, source, target in moves)
    for wave in range(max(waves, default=-1) + 1):
        mine = [move for move, of in zip(moves, waves, strict=True) if of == wave]
        assert mine
        for size, _, target in mine:
            free[target] -= size
        assert min(free) >= 0
        for size, source, _ in mine:
            free[source] += size


def test_moves_that_need_no_others_are_in_the_first_wave() -> None:
    assert waves_of([("a", "b"), ("c", "a"), ("d", "b"), ("e", "c")]) == [0, 1, 0, 2]
