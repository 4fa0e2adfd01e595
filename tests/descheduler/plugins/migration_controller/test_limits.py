from __future__ import annotations

import pytest
from koord_descheduler.plugins.migration_controller.limits import limit_of


@pytest.mark.parametrize(
    ("replicas", "limit", "expected"),
    [
        (100, None, 10),
        (11, None, 1),
        (10, None, 2),
        (4, None, 2),
        (3, None, 1),
        (0, None, 0),
        (10, "5%", 1),
        (19, "10%", 1),
        (20, "10%", 2),
        (5, "100%", 5),
        (5, 0, 1),
        (5, 9, 5),
    ],
)
def test_limits_are_those_of_koordinator(
    replicas: int, limit: int | str | None, expected: int
) -> None:
    assert limit_of(replicas, limit) == expected
