"""A real containerd for tests; see koord_demo.containerd.

For one instance shared by a whole run, the conftest.py at the top says
``from tests.support.containerd import containerd``.
"""

from collections.abc import Callable, Iterator

import pytest
from koord_demo.containerd import Containerd, why_not

__all__ = ["Containerd", "containerd", "requires_containerd", "why_not"]


def requires_containerd(test: Callable[..., object]) -> Callable[..., object]:
    """Mark a test as needing a real containerd, and skip it, with a reason, where there is none."""
    reason = why_not()
    marked = pytest.mark.skipif(reason is not None, reason=reason or "")(test)
    return pytest.mark.containerd(marked)


@pytest.fixture(scope="session")
def containerd() -> Iterator[Containerd]:
    """A running containerd; tests use its ``cgroup_root`` and may kill and restart it."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with Containerd() as instance:
        yield instance
    assert instance.leftovers() == []
