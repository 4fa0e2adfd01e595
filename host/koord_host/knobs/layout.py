"""Locations of cgroups and other places on this node.

Group names are relative to the cgroup root and the same for every subsystem:
"kubepods/burstable/pod1/c1".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum

from koord_model.qos import KubeQoS

from koord_host.kernel_files import processes
from koord_host.knobs.forms import WEIGHT_FORMS, WEIGHT_V2, Form, Value
from koord_host.knobs.table import Knob, PlaceKind
from koord_host.knobs.weights import RuntimeWeights


class Driver(StrEnum):
    """The kubelet's cgroup driver: how groups are named."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


class ScopePrefix(StrEnum):
    """The container runtime, by the prefix of its scopes."""

    CONTAINERD = "cri-containerd"
    DOCKER = "docker"
    CRIO = "crio"


_POD_NAMES = {
    Driver.CGROUPFS: re.compile(r"pod.+"),
    Driver.SYSTEMD: re.compile(r"(?:.+-)?kubepods(?:-burstable|-besteffort)?-pod.+\.slice"),
}
_CONTAINER = re.compile(r"(?:.*/)?(?:[^/]*-)?pod[^/]+/[^/]+")


@dataclass(frozen=True, slots=True)
class Layout:
    """The node's cgroup version and driver, and where its file systems are mounted.

    ``weights`` is what has been learnt of the runtime's. ``kubelet_root`` is the group above
    kubepods in the words of the kubelet's configuration (``cgroupRoot``), without slashes at its
    ends, "" for none.
    """

    version: int
    driver: Driver
    cgroup_root: str = "/sys/fs/cgroup"
    resctrl_root: str = "/sys/fs/resctrl"
    proc_root: str = "/proc"
    weights: RuntimeWeights = field(default_factory=RuntimeWeights, compare=False)
    kubelet_root: str = ""

    def of_kubelet(self, driver: Driver, root: str) -> Layout:
        """The layout beside a kubelet with another driver and cgroup root."""
        return replace(self, driver=driver, kubelet_root=root)

    def form(self, knob: Knob, place: str) -> Form:
        """Return the format of a knob's file there."""
        return self._forms(knob, place)[0]

    def holds(self, knob: Knob, place: str, value: Value, text: str) -> bool:
        """True if the text of a knob's file there means ``value``, or may mean it."""
        return any(form.holds(value, text) for form in self._forms(knob, place))

    def _forms(self, knob: Knob, place: str) -> tuple[Form, ...]:
        """The first one is to write by.

        The kubelet's groups have weights of its formula, the runtime's of the runtime's.
        While that is not known whatever it may have made of the shares is left.
        """
        form = knob.form(self.version)
        if form is not WEIGHT_V2 or not self.is_container(place):
            return (form,)
        formula = self.weights.formula
        return (WEIGHT_FORMS[formula],) if formula else tuple(WEIGHT_FORMS.values())

    def is_container(self, group: str) -> bool:
        """True if it is a group in a pod's, which the runtime creates."""
        return _CONTAINER.fullmatch(group) is not None

    def is_pod_name(self, name: str) -> bool:
        """True if a group below a class's is named as the kubelet names a pod's."""
        return _POD_NAMES[self.driver].fullmatch(name) is not None

    def path(self, knob: Knob, place: str) -> str:
        """The file to write; "" where this cgroup version has none."""
        if knob.where is PlaceKind.CGROUP:
            file = knob.file(self.version)
            return f"{self.group_path(place, knob.subsystem)}/{file}" if file else ""
        if knob.where is PlaceKind.PROCESS:
            process = processes.parse(place)
            return f"{self.proc_root}/{process.pid if process else place}/{knob.v1}"
        if knob.where is PlaceKind.SYSCTL:
            return f"{self.proc_root}/sys/{place.replace('.', '/')}"
        if knob.where is PlaceKind.DIRECTORY:
            return f"{place}/{knob.v1}"
        return place

    def group_path(self, group: str, subsystem: str) -> str:
        """The directory of a group, in the hierarchy of a v1 subsystem; "" is the root."""
        middle = "" if self.version == 2 else f"/{subsystem}"
        return f"{self.cgroup_root}{middle}/{group}" if group else f"{self.cgroup_root}{middle}"

    def list_file(self, group: str) -> str:
        """The file that lists the processes of a group."""
        return f"{self.group_path(group, 'cpu')}/cgroup.procs"

    def kube_qos_group(self, qos: KubeQoS) -> str:
        """The group above all pods of one of Kubernetes' classes."""
        return self._kubelet_group(qos)

    def pod_group(self, qos: KubeQoS, uid: str) -> str:
        """A pod's group, as the kubelet names it."""
        return self._kubelet_group(qos, f"pod{uid}")

    def is_shared(self, group: str) -> bool:
        """True if it is the root or a group above all pods, and so no pod's own."""
        return group == "" or group in map(self.kube_qos_group, KubeQoS)

    def _kubelet_group(self, qos: KubeQoS, *below: str) -> str:
        word = _QOS_WORDS[qos]
        above = self.kubelet_root.split("/") if self.kubelet_root else []
        names = [*above, "kubepods", *([word] if word else []), *below]
        if self.driver is Driver.CGROUPFS:
            return "/".join(names)
        return self.group_of_parent("-".join(name.replace("-", "_") for name in names) + ".slice")

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

    def container_group(self, pod_group: str, container_id: str, runtime: ScopePrefix) -> str:
        """A container's group in its pod's, as its runtime names it."""
        if self.driver is Driver.CGROUPFS:
            prefix = "crio-" if runtime is ScopePrefix.CRIO else ""
            return f"{pod_group}/{prefix}{container_id}"
        return f"{pod_group}/{runtime.value}-{container_id}.scope"


_QOS_WORDS = {
    KubeQoS.GUARANTEED: "",
    KubeQoS.BURSTABLE: "burstable",
    KubeQoS.BEST_EFFORT: "besteffort",
}
