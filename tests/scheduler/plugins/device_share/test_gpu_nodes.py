"""Which nodes have room for a pod, and what it takes of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from koord_scheduler.plugins.device_share.gpu_nodes import (
    GpuNodes,
    GpuRequest,
    fits,
    with_first_cards,
)

from tests.scheduler.plugins.device_share.gpu_cases import one_node, some_nodes, some_requests


@pytest.mark.parametrize(
    ("node", "request_", "room"),
    [
        (one_node((500.0, 300.0)), GpuRequest(0, 0, 1, 500), True),
        (one_node((500.0, 300.0)), GpuRequest(0, 0, 1, 501), False),
        (one_node((1000.0, 1000.0, 0.0)), GpuRequest(0, 0, 2, 1000), True),
        (one_node((1000.0, 999.0, 500.0)), GpuRequest(0, 0, 2, 1000), False),
        (one_node((0.0,), cpu=1000.0), GpuRequest(1000, 0), True),
        (one_node((0.0,), cpu=1000.0), GpuRequest(1001, 0), False),
        (one_node((0.0,), memory=5.0), GpuRequest(0, 5), True),
        (one_node((0.0,), memory=5.0), GpuRequest(0, 6), False),
        (one_node((1000.0,), model=1), GpuRequest(0, 0, 1, 1000, frozenset({0, 1})), True),
        (one_node((1000.0,), model=1), GpuRequest(0, 0, 1, 1000, frozenset({0})), False),
    ],
)
def test_room(node: GpuNodes, request_: GpuRequest, room: bool) -> None:
    assert fits(request_, node).tolist() == [room]


@given(some_nodes(), some_requests())
def test_a_pod_takes_what_it_requests(nodes: GpuNodes, request: GpuRequest) -> None:
    free = nodes.rows(np.flatnonzero(fits(request, nodes)))
    after = with_first_cards(request, free)
    assert (free.cpu - after.cpu == request.cpu).all()
    assert (free.memory - after.memory == request.memory).all()
    taken = free.cards - after.cards
    assert np.isin(taken, [0, request.share]).all()
    assert (taken.sum(axis=1) == request.cards * request.share).all()
    assert (after.cards >= 0).all()
