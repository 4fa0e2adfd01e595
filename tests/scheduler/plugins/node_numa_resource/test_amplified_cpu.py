"""Of CPU that is given away several times, CPUs that pods have for themselves count amplified."""

from __future__ import annotations

import numpy as np
import pytest
from koord_scheduler.plugins.node_numa_resource.amplified_cpu import AmplifiedCPU


@pytest.mark.parametrize(
    ("pod", "requested", "most"),
    [
        # Of 8,000 pods of their own have 2,000, which count as 4,000: 3,000 more are left.
        ((0, 2000, 2.0, False), 3000, 3000),
        ((0, 2000, 2.0, True), 3000, 1500),
        # Requests below those are not known yet.
        ((0, 2000, 2.0, False), 1999, 6001),
        ((0, 2000, 2.0, False), 2000, 4000),
        ((0, 0, 1.5, True), 5000, 2000),
    ],
)
def test_what_still_fits(pod: tuple[int, int, float, bool], requested: int, most: int) -> None:
    _, *more = pod
    for asked, fits in ((most, True), (most + 1, False)):
        amplified = AmplifiedCPU(asked, *more)
        assert amplified.is_counted
        assert amplified.fits(8000, requested) == fits
        rows = amplified.fits(np.array([8000, 0]), np.array([requested, 0]))
        assert rows.tolist() == [fits, False]


@pytest.mark.parametrize(("asked", "ratio"), [(1, 1.0), (9, 0.5), (0, 2.0)])
def test_nothing_is_counted_without_a_ratio_or_a_request(asked: int, ratio: float) -> None:
    amplified = AmplifiedCPU(asked, 0, ratio, binds=True)
    assert not amplified.is_counted
    assert amplified.fits(0, 5000) is True
