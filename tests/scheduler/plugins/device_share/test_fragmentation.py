"""The measure of FGD: as the paper says it, one kind and one card after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.plugins.device_share.fragmentation import fragmentation, fragmentation_scores
from koord_scheduler.plugins.device_share.gpu_nodes import GpuNodes, GpuRequest, fits
from koord_scheduler.plugins.device_share.typical_workload import typical_workload

from tests.scheduler.plugins.device_share.gpu_cases import (
    MODELS,
    one_node,
    some_nodes,
    some_requests,
)


def _by_definition(nodes: GpuNodes, row: int, kinds: list[GpuRequest]) -> float:
    """Section 3.1 of the paper, which does not look at memory."""
    cards, found = nodes.cards[row].tolist(), 0.0
    for kind in kinds:
        alone = nodes.rows(np.array([row]))._replace(memory=np.array([np.inf]))
        if not kind.cards or not fits(kind, alone)[0]:
            found += sum(cards)
        else:
            found += sum(free for free in cards if free < kind.share)
    return found / len(kinds)


@given(some_nodes(), st.lists(some_requests(), min_size=1, max_size=6))
def test_of_all_nodes_at_once_as_of_each(nodes: GpuNodes, kinds: list[GpuRequest]) -> None:
    measured = fragmentation(typical_workload(kinds, MODELS))(nodes)
    expected = [_by_definition(nodes, row, kinds) for row in range(len(nodes.cpu))]
    assert measured == pytest.approx(expected)


def test_paper_s_example() -> None:
    """Of a node with 600 and 400 free, a kind of 500 leaves 400 unused, one of 1000 all of it."""
    kinds = [GpuRequest(0, 0, 1, 500), GpuRequest(0, 0, 1, 1000)]
    assert fragmentation(typical_workload(kinds, 1))(one_node((600.0, 400.0))) == [700.0]


@pytest.mark.parametrize(
    ("before", "after", "score"), [(0, 0, 50), (1000, 0, 73), (0, 1000, 26), (0, 16e3, 0)]
)
def test_scores(before: float, after: float, score: float) -> None:
    assert fragmentation_scores(np.array([float(before)]), np.array([float(after)])) == [score]
