"""The quota of best-effort pods."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.strategies.cpu_suppress.be_quota import LEAST, next_quota, quota_of


def test_quota_of() -> None:
    cores = (6.5, 0.0123456, -3.0, 1.2349, 2.9999999996)
    expected = [650_000, LEAST, LEAST, 123_400, 300_000]
    assert [quota_of(one, 100_000) for one in cores] == expected
    assert quota_of(6.5, 50_000) == 325_000


@pytest.mark.parametrize(
    ("had", "wanted", "least", "expected"),
    [
        (-1, 500_000, LEAST, 500_000),
        (-1, 500_000, 600_000, 600_000),
        (500_000, 505_000, LEAST, 500_000),
        (500_000, 495_000, LEAST, 500_000),
        (500_000, 490_000, LEAST, 490_000),
        (5_000, LEAST, LEAST, LEAST),
        (500_000, 900_000, LEAST, 600_000),
        (500_000, 900_000, 700_000, 700_000),  # the floor wins over growth
        (500_000, 505_000, 504_000, 504_000),  # and over staying
    ],
)
def test_next_quota(had: int, wanted: int, least: int, expected: int) -> None:
    assert next_quota(had, wanted, least, 10_000, 100_000) == expected


QUOTAS = st.integers(LEAST, 6_400_000)


@given(st.one_of(st.just(-1), QUOTAS), QUOTAS, QUOTAS, QUOTAS)
def test_wanting_more_never_gives_less(had: int, one: int, other: int, least: int) -> None:
    low, high = sorted((one, other))
    assert next_quota(had, low, least, 64_000, 640_000) <= next_quota(
        had, high, least, 64_000, 640_000
    )


@given(QUOTAS, QUOTAS)
def test_it_settles_near_what_is_wanted(had: int, wanted: int) -> None:
    for _ in range(12):
        had = next_quota(had, wanted, LEAST, 64_000, 640_000)
    assert abs(had - wanted) < 64_000
    assert next_quota(had, wanted, LEAST, 64_000, 640_000) == had
