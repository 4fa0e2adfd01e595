"""The table of pods makes sense by itself."""

from __future__ import annotations

import pytest

from tests.vm import slices
from tests.vm.expectations import PODS, READ, PodCase


def test_names_are_unique() -> None:
    assert len({case.name for case in PODS}) == len(PODS)


@pytest.mark.parametrize("case", PODS, ids=lambda case: case.name)
def test_what_is_expected_is_read(case: PodCase) -> None:
    assert set(case.container) | set(case.pod) <= set(READ)


@pytest.mark.parametrize(("milli", "weight"), [(0, 1), (100, 4), (500, 20), (1000, 39), (2000, 79)])
def test_weights(milli: int, weight: int) -> None:
    assert slices.weight(slices.shares(milli)) == weight
