"""A whole node in memory: its kernel files, and what makes pods on it.

``files`` is the kernel's side: cgroups, resctrl, /proc, /sys and agents' files behind
one ``KernelFiles``, with processes and their cookies. ``cri`` says what a kubelet asks
of its runtime, ``runtime`` does it as containerd and runc do.
"""

from tests.support.fake_node.cri import PodSpec
from tests.support.fake_node.files import FakeNode
from tests.support.fake_node.runtime import StandInRuntime

__all__ = ["FakeNode", "PodSpec", "StandInRuntime"]
