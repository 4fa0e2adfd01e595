"""Old names of ``tests.support.node``."""

from tests.support.node import FakeKernel as FakeNode
from tests.support.node import PodSpec

__all__ = ["FakeNode", "PodSpec"]
