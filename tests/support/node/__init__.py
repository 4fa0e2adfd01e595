"""A whole node in memory, and koordlet's parts on it.

``fixture`` has ``NodeFixture``: files, layout, clocks, pods, and a koordlet that manages them.
``kernel`` is the kernel's side: cgroups, resctrl, /proc, /sys and agents' files behind one
``KernelFiles``, with processes and their cookies. ``pods`` says what a kubelet asks of its
runtime, ``runtime`` does it as containerd and runc do. ``strategies`` runs all strategies
with the measurements that a test invents, ``workload`` invents pods, rules and measurements.
"""

from tests.support.node.fixture import NodeFixture
from tests.support.node.kernel import FakeKernel
from tests.support.node.pods import PodSpec
from tests.support.node.runtime import FakeRuntime

__all__ = ["FakeKernel", "FakeRuntime", "NodeFixture", "PodSpec"]
