"""The bench of the whole scheduler works: its double keeps up with what the scheduler asks."""

from __future__ import annotations

import pytest

from bench.scheduler_end_to_end import Load, run
from tests.support.certificates import HAVE_OPENSSL

pytestmark = pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl makes the certificates")


def test_all_pods_are_bound_and_have_events() -> None:
    """``run`` waits for that; pods that are there already count as little as those that come."""
    found = run(Load(20, bound=40, waiting=5, offered=100))
    assert found.rate > 0
