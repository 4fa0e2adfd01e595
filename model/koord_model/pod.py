"""Pods and containers as hooks see them, whichever transport asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koord_model.resources import LinuxResources


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod at the moment of a hook: identity, labels, annotations, limits.

    ``cgroup_parent`` is the pod's own cgroup, under the cgroup root, spelled as the
    kubelet spells it. ``ip`` is empty before the pod has an address, and on the
    host's network. ``runtime_class`` is the name of its RuntimeClass: the handler that this
    stands for is known from the runtime alone.
    """

    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cgroup_parent: str = ""
    runtime_handler: str = ""
    resources: LinuxResources = LinuxResources()
    overhead: LinuxResources = LinuxResources()
    ip: str = ""
    runtime_class: str = ""

    @property
    def full_name(self) -> str:
        """Name in lines for people: "namespace/name"."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Container:
    """A container at the moment of a hook; ``id`` is empty before it exists."""

    pod: Pod
    name: str
    id: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    resources: LinuxResources = LinuxResources()
    env: Mapping[str, str] = field(default_factory=dict)


_VM_HANDLERS = ("kata", "firecracker", "cloud-hypervisor", "qemu")


def runs_in_vm(pod: Pod) -> bool:
    """True if the pod's processes are, or may be, inside a virtual machine.

    The host's cgroups then hold the hypervisor, and what its files say has no
    bearing on the pod's own processes. It shows in the runtime handler's name; while
    that of a runtime class is not known, it may be any.
    """
    if not pod.runtime_handler:
        return bool(pod.runtime_class)
    return pod.runtime_handler.startswith(_VM_HANDLERS)
