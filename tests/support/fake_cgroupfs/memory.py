"""The memory controller: limits, protection, and what happens when they are too low.

Usage is a simple model: a group has pages of its own, some of them reclaimable;
a limit first takes those, from the group and all below it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from tests.support.fake_cgroupfs.group import File, Group
from tests.support.fake_cgroupfs.numerals import MAX_PAGES, PAGE_SIZE, pages, refuse, unsigned


def usage(group: Group) -> int:
    """Pages charged to a group and all below it."""
    own = group.values.get("usage", 0)
    return own + sum(usage(child) for child in group.children.values())


def reclaim(group: Group, wanted: int) -> int:
    """Free up to so many pages in a group and below it; how many were freed."""
    freed = 0
    for one in group.subtree():
        part = min(one.values.get("reclaimable", 0), wanted - freed)
        if part > 0:
            one.values["reclaimable"] -= part
            one.values["usage"] -= part
            freed += part
    return freed


def _fits(group: Group, limit: int) -> bool:
    """Whether usage is within a limit, after reclaim if need be."""
    over = usage(group) - limit
    return over <= 0 or reclaim(group, over) >= over


def _write_limit(group: Group, text: str) -> None:
    limit = pages(text, "-1")
    if group.parent is None or limit > group.values.get("memsw", MAX_PAGES):
        refuse(errno.EINVAL)
    if not _fits(group, limit):
        refuse(errno.EBUSY)
    group.values["limit"] = limit


def _write_memsw(group: Group, text: str) -> None:
    limit = pages(text, "-1")
    if group.parent is None or limit < group.values.get("limit", MAX_PAGES):
        refuse(errno.EINVAL)
    if not _fits(group, limit):
        refuse(errno.EBUSY)
    group.values["memsw"] = limit


def _write_max(group: Group, text: str) -> None:
    """The kernel never refuses a limit below usage: it kills."""
    limit = pages(text, "max")
    group.values["max"] = limit
    if not _fits(group, limit):
        group.machine.oom_kills.append(group.path)
        _kill(group, usage(group) - limit)


def _kill(group: Group, over: int) -> None:
    """Take what is too much from where it is: its processes are dead."""
    for one in group.subtree():
        part = min(one.values.get("usage", 0), over)
        if part > 0:
            one.values["usage"] -= part
            over -= part


def _write_high(group: Group, text: str) -> None:
    limit = pages(text, "max")
    group.values["high"] = limit
    _fits(group, limit)


def _write_reclaim(group: Group, text: str) -> None:
    wanted = pages(text, "")
    if reclaim(group, wanted) < wanted:
        refuse(errno.EAGAIN)


def _limit(key: str, write: Callable[[Group, str], None] | None) -> File:
    """A limit in bytes, as v1 shows it."""

    def read(group: Group) -> str:
        return f"{group.values.get(key, MAX_PAGES) * PAGE_SIZE}\n"

    return File(read, write)


def bound(key: str, default: int, write: Callable[[Group, str], None] | None = None) -> File:
    """A bound in bytes or ``max``, as v2 shows it."""

    def read(group: Group) -> str:
        value = group.values.get(key, default)
        return "max\n" if value == MAX_PAGES else f"{value * PAGE_SIZE}\n"

    def keep(group: Group, text: str) -> None:
        group.values[key] = pages(text, "max")

    return File(read, write or keep)


def _write_oom_group(group: Group, text: str) -> None:
    value = unsigned(text.strip())
    if value > 1:
        refuse(errno.EINVAL)
    group.values["oom_group"] = value


def _reclaimable(group: Group) -> int:
    return sum(one.values.get("reclaimable", 0) for one in group.subtree())


def _read_stat_v1(group: Group) -> str:
    cache = group.values.get("reclaimable", 0) * PAGE_SIZE
    total_cache = _reclaimable(group) * PAGE_SIZE
    own = group.values.get("usage", 0) * PAGE_SIZE - cache
    total = usage(group) * PAGE_SIZE - total_cache
    return (
        f"cache {cache}\nrss {own}\ninactive_file {cache}\nactive_file 0\n"
        f"total_cache {total_cache}\ntotal_rss {total}\n"
        f"total_inactive_file {total_cache}\ntotal_active_file 0\n"
    )


def _read_stat_v2(group: Group) -> str:
    cache = _reclaimable(group) * PAGE_SIZE
    anon = usage(group) * PAGE_SIZE - cache
    return f"anon {anon}\nfile {cache}\ninactive_anon {anon}\ninactive_file {cache}\n"


_USAGE = File(lambda group: f"{usage(group) * PAGE_SIZE}\n")
V1 = {
    "memory.limit_in_bytes": _limit("limit", _write_limit),
    "memory.memsw.limit_in_bytes": _limit("memsw", _write_memsw),
    "memory.usage_in_bytes": _USAGE,
    "memory.stat": File(_read_stat_v1),
}
V2_ROOT = {"memory.stat": File(_read_stat_v2), "memory.reclaim": File(None, _write_reclaim)}
V2 = V2_ROOT | {
    "memory.min": bound("min", 0),
    "memory.low": bound("low", 0),
    "memory.high": bound("high", MAX_PAGES, _write_high),
    "memory.max": bound("max", MAX_PAGES, _write_max),
    "memory.current": _USAGE,
    "memory.oom.group": File(
        lambda group: f"{group.values.get('oom_group', 0)}\n", _write_oom_group
    ),
}
