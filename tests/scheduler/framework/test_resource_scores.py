"""Scores of one row equal those of many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.state.resource_scores import OF_ONE, ResourceScore

_AMOUNTS = st.integers(0, 80 << 40) | st.integers(0, 1000)


@pytest.mark.parametrize("strategy", OF_ONE)
@given(taken=_AMOUNTS, has=_AMOUNTS)
def test_one_row_scores_as_many_do(strategy: ResourceScore, taken: int, has: int) -> None:
    of_many = strategy(np.array([float(taken)]), np.array([float(has)]))
    assert OF_ONE[strategy](float(taken), float(has)) == of_many.item()
