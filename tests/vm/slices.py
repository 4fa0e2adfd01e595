"""The kubelet's part of the cgroup tree with the systemd driver: transient slices."""

from __future__ import annotations

import subprocess
from pathlib import Path

from koord_model.qos import KubeQoS

from tests.vm.expectations import PodCase

CGROUP = Path("/sys/fs/cgroup")
ROOT = "kubepods.slice"

_MANAGER = (
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
)
_PARENTS = {
    KubeQoS.GUARANTEED: ROOT,
    KubeQoS.BURSTABLE: "kubepods-burstable.slice",
    KubeQoS.BEST_EFFORT: "kubepods-besteffort.slice",
}
_CONTROLLERS = "+cpu +cpuset +io +memory +pids"


def make_tree() -> None:
    """The slices that a kubelet makes as it starts, for a node of two CPUs."""
    _start(ROOT, weight=weight(2048))
    _start(_PARENTS[KubeQoS.BURSTABLE], weight=weight(102))
    _start(_PARENTS[KubeQoS.BEST_EFFORT], weight=weight(2))


def make_pod(case: PodCase, uid: str) -> str:
    """The pod's slice with the kubelet's limits on it; returns the CRI's cgroup parent."""
    parent = _PARENTS[case.kube_qos]
    # A dash would say that the slice is inside another: systemd's names have no other.
    name = f"{parent.removesuffix('.slice')}-pod{uid.replace('-', '_')}.slice"
    _start(
        name,
        weight=weight(shares(case.cpu_request)),
        # Microseconds in a second, of which 1000 are a thousandth of a CPU.
        quota=case.cpu_limit * 1000,
        memory=case.memory_limit,
    )
    path = Path(ROOT, name) if parent == ROOT else Path(ROOT, parent, name)
    _hand_down_controllers(path)
    return f"/{path}"


def shares(milli: int) -> int:
    """The kubelet's shares for thousandths of a CPU."""
    return max(2, milli * 1024 // 1000)


def weight(shares_: int) -> int:
    """The kubelet's and runc's cgroup v2 weight for shares."""
    return 1 + (shares_ - 2) * 9999 // 262142


def set_weight(name: str, value: int) -> None:
    """Set a slice's weight as libcontainer does for the kubelet."""
    arguments = [name, "true", "1", "CPUWeight", "t", str(value)]
    command = ["busctl", "call", *_MANAGER, "SetUnitProperties", "sba(sv)", *arguments]
    subprocess.run(command, check=True, capture_output=True, text=True)


def _start(name: str, *, weight: int, quota: int = 0, memory: int = 0) -> None:
    properties = [
        *("Description", "s", f"libcontainer container {name}"),
        *("DefaultDependencies", "b", "false"),
        *("CPUAccounting", "b", "true"),
        *("MemoryAccounting", "b", "true"),
        *("IOAccounting", "b", "true"),
        *("TasksAccounting", "b", "true"),
        *("CPUWeight", "t", str(weight)),
        *(("CPUQuotaPerSecUSec", "t", str(quota)) if quota else ()),
        *(("MemoryMax", "t", str(memory)) if memory else ()),
    ]
    arguments = [name, "replace", str(len(properties) // 3), *properties, "0"]
    command = ["busctl", "call", *_MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))", *arguments]
    subprocess.run(command, check=True, capture_output=True, text=True)
    # The call only queues a job; this waits until it is done, as the kubelet does.
    subprocess.run(["systemctl", "start", name], check=True, capture_output=True, text=True)


def _hand_down_controllers(path: Path) -> None:
    """Let a group have all controllers, as libcontainer does for the kubelet and for runc.

    Each time from the top: systemd takes away again what no unit of its own asks for.
    """
    for parent in reversed(path.parents):
        (CGROUP / parent / "cgroup.subtree_control").write_text(_CONTROLLERS)
