"""GPUs are as near to each other as they can be."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.plugins.device_share.device_hints import TopologyLevel
from koord_scheduler.plugins.device_share.gpu_topology import GPUScope, ScopeSearch, gpu_scopes

from tests.scheduler.plugins.device_share.device_cases import gpu, place


def scopes(places: list[int]) -> GPUScope:
    found = gpu_scopes(
        {minor: gpu(minor, place(one // 2, one)) for minor, one in enumerate(places)}
    )
    assert found is not None
    return found


def nearness(places: list[int], minors: tuple[int, ...]) -> TopologyLevel:
    switches = {places[one] for one in minors}
    if len(switches) == 1:
        return TopologyLevel.PCIE
    same = len({one // 2 for one in switches}) == 1
    return TopologyLevel.NUMA_NODE if same else TopologyLevel.NODE


def possible(places: list[int], room: set[int], count: int) -> TopologyLevel | None:
    """How near so many can be, by counting."""
    for level, width in ((TopologyLevel.PCIE, 1), (TopologyLevel.NUMA_NODE, 2)):
        groups = sorted(places[one] // width for one in room)
        if any(len(list(group)) >= count for _, group in groupby(groups)):
            return level
    return TopologyLevel.NODE if len(room) >= count else None


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=10),
    st.sets(st.integers(0, 9)),
    st.sets(st.integers(0, 9)),
    st.integers(1, 5),
    st.sampled_from(list(TopologyLevel)[:4]),
)
def test_no_other_choice_is_nearer(
    places: list[int], full: set[int], begun: set[int], count: int, level: TopologyLevel
) -> None:
    room = set(range(len(places))) - full
    search = ScopeSearch(count, level, room.__contains__, frozenset(full | begun))
    best, nearest = search.best(scopes(places)), possible(places, room, count)
    if nearest is None or nearest < level:
        assert best is None
        return
    assert best is not None
    assert len(set(best)) == count
    assert set(best) <= room
    assert nearness(places, best) == nearest or count == 1


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.lists(st.integers(0, 3), min_size=8, max_size=8),
)
def test_of_parts_the_best_score_wins_where_all_are_as_near_and_as_full(
    places: list[int], scores: list[int]
) -> None:
    search = ScopeSearch(1, TopologyLevel.ANY, lambda _: True, frozenset(), scores.__getitem__)
    best = search.best(scopes(places))
    assert best is not None
    assert scores[best[0]] == max(scores[: len(places)])


def test_places_that_are_not_known_make_no_scopes() -> None:
    assert gpu_scopes({}) is None
    assert gpu_scopes({0: gpu(0, place(0, 0)), 1: gpu(1)}) is None
