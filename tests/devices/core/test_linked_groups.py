"""Groups in which each accelerator reaches each."""

from __future__ import annotations

import time
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from koord_devices.core.linked_groups import links
from koord_devices.core.tool_output import link_matrix, memory

PAIRS = st.sets(
    st.frozensets(st.integers(0, 7), min_size=2, max_size=2),
    max_size=28,
)


@given(PAIRS)
def test_groups_are_all_linked_cannot_grow_and_leave_out_no_pair(
    pairs: set[frozenset[int]],
) -> None:
    found = links(dict.fromkeys(pairs, "NVLink"))
    groups = {frozenset((minor, *link.peers)) for minor, each in found.items() for link in each}
    inside = {frozenset(pair) for group in groups for pair in combinations(group, 2)}
    assert inside == pairs
    minors = {minor for pair in pairs for minor in pair}
    for group in groups:
        for other in minors - group:
            assert any(frozenset((other, minor)) not in pairs for minor in group)
    for minor, each in found.items():
        assert {frozenset((minor, *link.peers)) for link in each} == {
            group for group in groups if minor in group
        }


def test_a_cube_mesh_of_eight_is_two_fours_and_four_pairs() -> None:
    """As in a DGX-1: each half is linked, and each GPU with its twin."""
    halves = [*combinations(range(4), 2), *combinations(range(4, 8), 2)]
    pairs = [*halves, *((minor, minor + 4) for minor in range(4))]
    found = links({frozenset(pair): "NVLink" for pair in pairs})
    assert sorted(link.peers for link in found[0]) == [(1, 2, 3), (4,)]


def test_links_without_sense_are_no_links() -> None:
    """Of 60 devices, each linked with all but two, there are 3^20 groups."""
    pairs = combinations(range(60), 2)
    apart = {frozenset(pair): "NVLink" for pair in pairs if pair[0] // 3 != pair[1] // 3}
    assert links(apart) == {}


def test_a_link_counts_where_both_directions_say_so() -> None:
    text = "  GPU0 GPU1 GPU2\nGPU0 X MX MX 0-3\nGPU1 MX X NODE 0-3\nGPU2 SYS NODE X 4-7\n"
    assert link_matrix(text, "GPU", {"MX": "MetaXLink"}) == {frozenset((0, 1)): "MetaXLink"}


def test_a_line_without_end_costs_nothing() -> None:
    """A pattern that searches long would hold up all threads."""
    from koord_devices.core.tool_output import fields
    from koord_devices.vendors import cambricon, huawei, kunlun, metax

    began = time.monotonic()
    for piece in (" ", "| 0 ", "GPU#0 ", "a:", "1 MiB/ ", ": "):
        text = piece * (1 << 18)
        parsers = (fields, cambricon.cards_of, metax.listed_gpus, metax.by_gpu, huawei.by_chip)
        for parse in (*parsers, huawei.chips_of, kunlun.rows_of, cambricon.driver_of):
            list(parse(text))
    assert time.monotonic() - began < 10


def test_memory_is_in_powers_of_two() -> None:
    cases = {"64GB": 64 << 30, "65536 MiB": 64 << 30, "98304": 98304, "7 K": 7 << 10, "N/A": 0}
    assert {text: memory(text) for text in cases} == cases
    assert memory("98304", "M") == 96 << 30
