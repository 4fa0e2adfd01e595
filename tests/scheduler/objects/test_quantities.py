"""Amounts are written to the API as exactly as they are known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.demand import amount
from koord_scheduler.objects.quantities import quantity


@given(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(0, 1 << 53))
def test_what_is_written_reads_as_the_same(resource: str, given_amount: int) -> None:
    assert amount(resource, quantity(resource, given_amount)) == given_amount


@pytest.mark.parametrize(
    ("resource", "given_amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 10_752 << 20, "10752Mi"),
        ("memory", 0, "0"),
        ("example.com/foo", 3000, "3k"),
    ],
)
def test_the_largest_suffix_that_is_exact(resource: str, given_amount: int, text: str) -> None:
    assert quantity(resource, given_amount) == text
