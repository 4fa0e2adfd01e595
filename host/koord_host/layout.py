"""Where cgroups and other places are on this node.

Group names are relative to the cgroup root and the same for every subsystem:
"kubepods/burstable/pod1/c1".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from koord_model.qos import KubeQoS

from koord_host.knobs import Knob, Where


class Driver(StrEnum):
    """The kubelet's cgroup driver: how groups are named."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


class Runtime(StrEnum):
    """The container runtime, by the prefix of its scopes."""

    CONTAINERD = "cri-containerd"
    DOCKER = "docker"
    CRIO = "crio"


@dataclass(frozen=True, slots=True)
class Layout:
    """The node's cgroup version and driver, and where its file systems are mounted."""

    version: int
    driver: Driver
    cgroup_root: str = "/sys/fs/cgroup"
    resctrl_root: str = "/sys/fs/resctrl"
    proc_root: str = "/proc"

    def path(self, knob: Knob, place: str) -> str:
        """The file to write; "" where this cgroup version has none."""
        if knob.where is Where.CGROUP:
            file = knob.file(self.version)
            return f"{self.group_path(place, knob.subsystem)}/{file}" if file else ""
        if knob.where is Where.PROCESS:
            return f"{self.proc_root}/{place}/{knob.v1}"
        if knob.where is Where.SYSCTL:
            return f"{self.proc_root}/sys/{place.replace('.', '/')}"
        return place

    def group_path(self, group: str, subsystem: str) -> str:
        """The directory of a group, in the hierarchy of a v1 subsystem; "" is the root."""
        middle = "" if self.version == 2 else f"/{subsystem}"
        return f"{self.cgroup_root}{middle}/{group}" if group else f"{self.cgroup_root}{middle}"

    def kube_qos_group(self, qos: KubeQoS) -> str:
        """The group above all pods of one of Kubernetes' classes."""
        word = _QOS_WORDS[qos]
        if self.driver is Driver.CGROUPFS:
            return f"kubepods/{word}" if word else "kubepods"
        return f"kubepods.slice/kubepods-{word}.slice" if word else "kubepods.slice"

    def pod_group(self, qos: KubeQoS, uid: str) -> str:
        """A pod's group, as the kubelet names it."""
        above = self.kube_qos_group(qos)
        if self.driver is Driver.CGROUPFS:
            return f"{above}/pod{uid}"
        word = _QOS_WORDS[qos]
        prefix = f"kubepods-{word}" if word else "kubepods"
        return f"{above}/{prefix}-pod{uid.replace('-', '_')}.slice"

    def group_of_parent(self, cgroup_parent: str) -> str:
        """The group that a CRI request's ``cgroup_parent`` means.

        The systemd driver names the last slice alone; its parents follow from it:
        "kubepods-besteffort-pod1.slice" is below "kubepods-besteffort.slice".
        """
        name = cgroup_parent.strip("/")
        if not name.endswith(".slice") or "/" in name:
            return name
        words = name.removesuffix(".slice").split("-")
        slices = ("-".join(words[: count + 1]) + ".slice" for count in range(len(words)))
        return "/".join(slices)

    def container_group(self, pod_group: str, container_id: str, runtime: Runtime) -> str:
        """A container's group in its pod's, as its runtime names it."""
        if self.driver is Driver.CGROUPFS:
            prefix = "crio-" if runtime is Runtime.CRIO else ""
            return f"{pod_group}/{prefix}{container_id}"
        return f"{pod_group}/{runtime.value}-{container_id}.scope"


_QOS_WORDS = {
    KubeQoS.GUARANTEED: "",
    KubeQoS.BURSTABLE: "burstable",
    KubeQoS.BEST_EFFORT: "besteffort",
}
