"""Old names of ``tests.support.node``."""

from tests.support.node.pods import PodSpec, pod_list

__all__ = ["PodSpec", "pod_list"]
