"""Merging of hints: the same result as trying all combinations, without trying them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.extension_points.topology_hints import NUMAHint, mask_of
from koord_scheduler.plugins.node_numa_resource.topology_hints import merge_hints

NODES = (0, 1, 2)
MASKS = st.one_of(st.none(), st.integers(1, 7))
HINTS = st.builds(
    NUMAHint, MASKS, st.booleans(), st.sampled_from([False, False, True]), st.integers(0, 3)
)


def merge_one_by_one(resources: Sequence[Sequence[NUMAHint]], refused: frozenset[int]) -> NUMAHint:
    """Koordinator's way: all combinations, in order."""
    everything = mask_of(NODES)
    best = NUMAHint(everything)
    for combination in itertools.product(*resources):
        masks = [hint.mask for hint in combination if hint.mask is not None]
        mask = everything
        for one in masks:
            mask &= one
        if not mask:
            continue
        sizes = [one.bit_count() for one in masks]
        is_short = bool(sizes) and max(sizes) != mask.bit_count()
        candidate = NUMAHint(
            mask,
            len(set(masks)) <= 1
            and all(hint.preferred for hint in combination)
            and mask not in refused,
            is_short or any(hint.unsatisfied for hint in combination),
            sum(hint.score for hint in combination if hint.mask == mask),
        )
        size, best_size = mask.bit_count(), (best.mask or 0).bit_count()
        if candidate.preferred is not best.preferred:
            best = candidate if candidate.preferred else best
        elif (size, mask) < (best_size, best.mask or 0) or (
            size == best_size and candidate.score > best.score
        ):
            best = candidate
    return best


@given(
    st.lists(st.lists(HINTS, max_size=4), max_size=4),
    st.frozensets(st.integers(1, 7), max_size=2),
)
def test_merging_equals_trying_all_combinations(
    resources: list[list[NUMAHint]], refused: frozenset[int]
) -> None:
    merged = merge_hints(NODES, resources, lambda mask: mask not in refused)
    assert merged == merge_one_by_one(resources, refused)


def test_what_would_take_billions_of_combinations_is_merged() -> None:
    """Eight NUMA nodes, six resources, none of which agrees with another: 255 to the power of 6."""
    nodes = range(8)
    masks = sorted(range(1, 256), key=lambda mask: (mask.bit_count(), mask))
    resources = [
        [NUMAHint(mask, score=mask * number % 101) for mask in masks] for number in range(1, 7)
    ]
    tried = 0

    def is_allowed(mask: int) -> bool:
        nonlocal tried
        tried += 1
        return True

    merge_hints(nodes, resources, is_allowed)
    assert tried < 10**6
