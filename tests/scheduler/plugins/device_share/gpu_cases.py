"""Nodes and requests for tests: few different amounts, so that much is equal and much just fits."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from koord_scheduler.plugins.device_share.gpu_nodes import WHOLE, GpuNodes, GpuRequest

MODELS = 2
SHARES = (250, 300, 500, 750)
_CPU = st.sampled_from([0.0, 1000.0, 3000.0, 8000.0])
_MEMORY = st.sampled_from([0.0, 100.0, 400.0])
_ACCEPTED = st.sampled_from([None, frozenset({0}), frozenset({1}), frozenset({0, 1})])


@st.composite
def some_requests(draw: st.DrawFn) -> GpuRequest:
    cards = draw(st.sampled_from([0, 1, 1, 2, 3]))
    share = draw(st.sampled_from([*SHARES, WHOLE])) if cards == 1 else WHOLE if cards else 0
    return GpuRequest(draw(_CPU), draw(_MEMORY), cards, share, draw(_ACCEPTED) if cards else None)


@st.composite
def some_nodes(draw: st.DrawFn) -> GpuNodes:
    free = st.sampled_from([0.0, 200.0, 250.0, 500.0, 700.0, 1000.0, 1000.0])
    node = st.tuples(_CPU, _MEMORY, st.tuples(free, free, free), st.integers(0, MODELS - 1))
    cpu, memory, cards, model = zip(*draw(st.lists(node, min_size=1, max_size=5)), strict=True)
    return GpuNodes(np.array(cpu), np.array(memory), np.array(cards), np.array(model))


def one_node(
    cards: tuple[float, ...], cpu: float = 64_000.0, memory: float = 1e6, model: int = 0
) -> GpuNodes:
    return GpuNodes(np.array([cpu]), np.array([memory]), np.array([cards]), np.array([model]))
