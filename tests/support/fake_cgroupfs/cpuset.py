"""The cpuset controller: which processors and nodes a group may use."""

from __future__ import annotations

import errno

from tests.support.fake_cgroupfs.group import File, Group
from tests.support.fake_cgroupfs.numerals import list_of, mask_of, refuse

#: The kernel's bound on NUMA nodes; Debian's kernels have this one.
NODES = 1024


def allowed(group: Group, kind: str) -> int:
    """The mask written into a group; the root has all there is."""
    if group.parent is None:
        return group.machine.cpus if kind == "cpus" else group.machine.mems
    return group.values.get(kind, 0)


def effective(group: Group, kind: str) -> int:
    """What a group really has: in v2 what is not usable is what the parent has."""
    own = allowed(group, kind)
    if group.machine.version == 1 or group.parent is None:
        return own
    above = effective(group.parent, kind)
    return (own & above) or above


def _change(group: Group, kind: str, text: str) -> None:
    machine = group.machine
    if group.parent is None:
        refuse(errno.EACCES)
    mask = mask_of(text, machine.cpu_width if kind == "cpus" else NODES)
    if mask & ~(machine.cpus if kind == "cpus" else machine.mems):
        refuse(errno.EINVAL)
    old = group.values.get(kind, 0)
    if mask == old:
        return
    if machine.version == 1:
        if any(child.values.get(kind, 0) & ~mask for child in group.children.values()):
            refuse(errno.EBUSY)
        if mask & ~allowed(group.parent, kind):
            refuse(errno.EACCES)
    if not mask and group.populated():
        refuse(errno.ENOSPC)
    group.values[kind] = mask


def check_attach(group: Group) -> None:
    """Whether a process may come in: v1 wants processors and nodes first."""
    if group.machine.version == 1 and not (allowed(group, "cpus") and allowed(group, "mems")):
        refuse(errno.ENOSPC)


def inherit(group: Group) -> None:
    """Take what the parent has, as a container runtime sees to."""
    if group.parent is not None:
        group.values["cpus"] = allowed(group.parent, "cpus")
        group.values["mems"] = allowed(group.parent, "mems")


def _list(kind: str) -> File:
    def read(group: Group) -> str:
        return f"{list_of(allowed(group, kind))}\n"

    return File(read, lambda group, text: _change(group, kind, text))


def _effective(kind: str) -> File:
    return File(lambda group: f"{list_of(effective(group, kind))}\n")


V1 = {
    "cpuset.cpus": _list("cpus"),
    "cpuset.mems": _list("mems"),
    "cpuset.effective_cpus": _effective("cpus"),
    "cpuset.effective_mems": _effective("mems"),
}
V2_ROOT = {"cpuset.cpus.effective": _effective("cpus"), "cpuset.mems.effective": _effective("mems")}
V2 = V2_ROOT | {"cpuset.cpus": _list("cpus"), "cpuset.mems": _list("mems")}
