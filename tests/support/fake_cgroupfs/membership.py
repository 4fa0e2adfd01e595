"""Which process is where, and which controllers a group's children have."""

from __future__ import annotations

import errno
import re

from tests.support.fake_cgroupfs import cpuset, disks
from tests.support.fake_cgroupfs.group import File, Group
from tests.support.fake_cgroupfs.numerals import refuse, signed

CONTROLLERS = ("cpuset", "cpu", "io", "memory", "pids")
#: These may be shared out below a group that has processes of its own.
THREADED = frozenset({"cpuset", "cpu", "pids"})
_VALUES = {
    "cpu": ("shares", "period", "quota", "burst", "idle", "bvt"),
    "cpuset": ("cpus", "mems"),
    "io": ("met", "weight", "latency", *disks.RATES),
    "memory": ("max", "high", "low", "min", "oom_group"),
}
_OWNERS = {key: controller for controller, keys in _VALUES.items() for key in keys}


def root_of(group: Group) -> Group:
    while group.parent is not None:
        group = group.parent
    return group


def attach(group: Group, pid: int) -> None:
    """Move a process into a group, out of where it was in this hierarchy."""
    if group.machine.version == 2:
        _check_internal(group)
    elif "cpuset.cpus" in group.files:
        cpuset.check_attach(group)
    for other in root_of(group).subtree():
        other.pids.discard(pid)
    group.pids.add(pid)
    group.machine.pids.add(pid)


def _can_share(group: Group) -> bool:
    """Whether processes and children may stand side by side."""
    if group.parent is None:
        return True
    busy = any(child.populated() for child in group.children.values())
    return not busy and group.enabled <= THREADED


def _thread_root(group: Group) -> bool:
    """Whether it has processes and shares out: its children may hold only threads."""
    return group.parent is not None and bool(group.pids and group.enabled)


def _check_domain(group: Group) -> None:
    above = group.parent
    while above is not None:
        if _thread_root(above):
            refuse(errno.EOPNOTSUPP)
        above = above.parent


def _check_internal(group: Group) -> None:
    _check_domain(group)
    if group.enabled and not _can_share(group):
        refuse(errno.EBUSY)


def _write_procs(group: Group, text: str) -> None:
    text = text.strip()
    if not re.fullmatch(r"[+-]?\w+", text):
        refuse(errno.EINVAL)
    pid = signed(text)
    if not 0 <= pid < 2**31:
        refuse(errno.EINVAL)
    if pid == 0:
        pid = group.machine.self_pid
    if pid not in group.machine.pids:
        refuse(errno.ESRCH)
    attach(group, pid)


def _read_procs(group: Group) -> str:
    return "".join(f"{pid}\n" for pid in sorted(group.pids))


def available(group: Group) -> frozenset[str]:
    """The controllers a group of v2 has itself."""
    return frozenset(CONTROLLERS) if group.parent is None else group.parent.enabled


def _shown(names: frozenset[str]) -> str:
    return " ".join(name for name in CONTROLLERS if name in names) + ("\n" if names else "")


def _write_subtree_control(group: Group, text: str) -> None:
    changes = [token for token in text.strip().split(" ") if token]
    if any(one[0] not in "+-" or one[1:] not in CONTROLLERS for one in changes):
        refuse(errno.EINVAL)
    wanted = set(group.enabled)
    for one in changes:
        (wanted.add if one[0] == "+" else wanted.discard)(one[1:])
    more, less = wanted - group.enabled, group.enabled - wanted
    if more - available(group):
        refuse(errno.ENOENT)
    if any(child.enabled & less for child in group.children.values()):
        refuse(errno.EBUSY)
    _check_enabling(group, frozenset(more))
    group.enabled = frozenset(wanted)
    for child in group.children.values():
        _reset(child, less)


def _reset(group: Group, controllers: set[str] | frozenset[str]) -> None:
    """Lose the settings of a controller that is taken away."""
    for key in list(group.values):
        if _OWNERS.get(key.partition(" ")[0]) in controllers:
            del group.values[key]


def _check_enabling(group: Group, more: frozenset[str]) -> None:
    if not more or group.parent is None:
        return
    _check_domain(group)
    if more <= THREADED and _can_share(group):
        return
    if not more <= THREADED and _thread_root(group):
        refuse(errno.EOPNOTSUPP)
    if group.pids:
        refuse(errno.EBUSY)


_PROCS = File(_read_procs, _write_procs)
V1 = {"cgroup.procs": _PROCS, "tasks": _PROCS}
V2_ROOT = {
    "cgroup.procs": _PROCS,
    "cgroup.threads": _PROCS,
    "cgroup.controllers": File(lambda group: _shown(available(group))),
    "cgroup.subtree_control": File(lambda group: _shown(group.enabled), _write_subtree_control),
}
