"""A real containerd for tests, which may take its time; see koord_demo.containerd.

For one instance shared by a whole run, the conftest.py at the top says
``from tests.support.containerd import containerd``.
"""

from collections.abc import Callable, Iterator

import grpc
import koord_demo.containerd as demo
import pytest
from koord_demo.containerd import why_not

from tests.support.processes import PATIENCE, until

__all__ = [
    "V1ALPHA2",
    "Containerd",
    "containerd",
    "requires_containerd",
    "skip_without_v1alpha2",
    "why_not",
]

V1ALPHA2 = "runtime.v1alpha2"


class Containerd(demo.Containerd):
    """One of our own, with what it starts."""

    def start(self, *, timeout: float = PATIENCE) -> None:
        super().start(timeout=timeout)

    def close(self) -> None:
        super().close()
        # What was killed is gone once it is reaped, on a busy machine later than that waits.
        until(self._gone, f"nothing is left of {self.directory}")

    def _gone(self) -> bool:
        for group in self._cgroups():
            demo._remove_cgroup(group)
        return not self.leftovers()


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


def skip_without_v1alpha2(containerd: Containerd) -> None:
    """Skip the test where this containerd has CRI v1 alone, as 2.0 and later do."""
    with containerd.cri(V1ALPHA2) as old:
        try:
            old.version()
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
            with containerd.cri() as cri:
                version = cri.version().runtime_version
            pytest.skip(f"containerd {version} has no CRI v1alpha2: needs containerd 1")
