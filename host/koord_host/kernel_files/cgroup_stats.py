"""Usage and throttling of cgroups, from the kernel's text, for both versions.

Formats are the kernel's: Documentation/admin-guide/cgroup-v1 (cpuacct, memory) and
cgroup-v2.rst. A group's figures include those of the groups below it. Every reader of
text raises ``ValueError`` for what no kernel gives; the message does not name the file.
"""

from __future__ import annotations

from typing import NamedTuple

from koord_model.excerpt import excerpt

from koord_host.knobs.layout import Layout

_MOST = (1 << 64) - 1
"""The kernel's counters are unsigned 64-bit numbers; a larger number is not valid."""
_AROUND = "\n ="


class Throttling(NamedTuple):
    """Enforcement periods of the group's quota that began, and those it was throttled in."""

    periods: int
    throttled: int


class ReclaimStats(NamedTuple):
    """A cgroup's reclaimable memory in bytes, and its counters of reclaim in pages; v2.

    ``page_cache`` is without tmpfs, which needs swap to be reclaimed.
    ``workingset_refault`` counts pages that were read again after they were reclaimed,
    ``workingset_activate`` those of them that were reclaimed too soon.
    """

    inactive_anon: int
    inactive_file: int
    page_cache: int
    file_mapped: int
    pgscan: int
    pgsteal: int
    workingset_refault: int
    workingset_activate: int


class CgroupStats:
    """The statistics files of this node's cgroups.

    ``page_bytes`` is the kernel's page size: v1 counts memory of NUMA nodes in pages.
    """

    def __init__(self, layout: Layout, page_bytes: int = 4096) -> None:
        self._layout = layout
        self._v2 = layout.version == 2
        self._page_bytes = page_bytes
        prefix = "" if self._v2 else "total_"
        self._anonymous = tuple(
            f"\n{prefix}{name} " for name in ("inactive_anon", "active_anon", "unevictable")
        )
        self._file = tuple(f"\n{prefix}{name} " for name in ("active_file", "inactive_file"))
        self._by_node = (
            ("\ninactive_anon ", "\nactive_anon ", "\nunevictable ")
            if self._v2
            else ("\nhierarchical_anon=", "\nhierarchical_unevictable=")
        )

    def cpu_file(self, group: str) -> str:
        """v1 ``cpuacct.usage``, v2 ``cpu.stat``."""
        name = "cpu.stat" if self._v2 else "cpuacct.usage"
        return f"{self._layout.group_path(group, 'cpuacct')}/{name}"

    def cpu_nanoseconds(self, text: str) -> int:
        """CPU time used, in nanoseconds, from ``cpu_file``."""
        return _field(f"\n{text}", "\nusage_usec ") * 1000 if self._v2 else _whole(text)

    def throttling_file(self, group: str) -> str:
        """``cpu.stat``."""
        return f"{self._layout.group_path(group, 'cpu')}/cpu.stat"

    def throttling(self, text: str) -> Throttling | None:
        """From ``throttling_file``; ``None`` where the kernel has no quotas for this group."""
        text = f"\n{text}"
        if self._v2 and "\nnr_periods " not in text and "\nusage_usec " in text:
            return None
        return Throttling(_field(text, "\nnr_periods "), _field(text, "\nnr_throttled "))

    def memory_file(self, group: str) -> str:
        """``memory.stat``."""
        return f"{self._layout.group_path(group, 'memory')}/memory.stat"

    def memory(self, text: str) -> int:
        """Memory without page cache, in bytes, from ``memory_file``.

        Anonymous memory, tmpfs too, and what cannot be evicted; no kernel memory.
        """
        text = f"\n{text}"
        first, second, third = self._anonymous
        return _field(text, first) + _field(text, second) + _field(text, third)

    def page_cache(self, text: str) -> int:
        """Pages of files, active or not, in bytes, from ``memory_file``."""
        text = f"\n{text}"
        first, second = self._file
        return _field(text, first) + _field(text, second)

    def memory_limit_file(self, group: str) -> str:
        """v1 ``memory.failcnt``, v2 ``memory.events``."""
        name = "memory.events" if self._v2 else "memory.failcnt"
        return f"{self._layout.group_path(group, 'memory')}/{name}"

    def memory_limit_hits(self, text: str) -> int:
        """Times that the group reached a limit of its own, from ``memory_limit_file``."""
        if not self._v2:
            return _whole(text)
        text = f"\n{text}"
        return _field(text, "\nhigh ") + _field(text, "\nmax ")

    def disk_file(self, group: str) -> str:
        """v1 ``blkio.throttle.io_service_bytes_recursive``, v2 ``io.stat``."""
        name = "io.stat" if self._v2 else "blkio.throttle.io_service_bytes_recursive"
        return f"{self._layout.group_path(group, 'blkio')}/{name}"

    def disk_bytes(self, text: str) -> dict[str, int]:
        """Bytes read and written by device ("8:0"), from ``disk_file``."""
        found: dict[str, int] = {}
        for line in text.splitlines():
            device, *words = line.replace("=", " ").split()
            if ":" not in device:
                continue  # v1's total
            counted = dict(zip(words[::2], words[1::2], strict=False))
            names = ("rbytes", "wbytes") if self._v2 else ("Read", "Write")
            part = sum(_whole(counted[name]) for name in names if name in counted)
            found[device] = found.get(device, 0) + part
        return found

    def numa_file(self, group: str) -> str:
        """``memory.numa_stat``."""
        return f"{self._layout.group_path(group, 'memory')}/memory.numa_stat"

    def numa_memory(self, text: str) -> dict[int, int]:
        """Return the bytes that ``memory`` counts by NUMA node, from ``numa_file``.

        v1 gives pages of the kernel's size, v2 bytes.
        """
        text = f"\n{text}"
        unit = 1 if self._v2 else self._page_bytes
        found: dict[int, int] = {}
        for name in self._by_node:
            for word in _line(text, name).split():
                if word[0] == "N":
                    node, _, value = word[1:].partition("=")
                    number = _whole(node)
                    found[number] = found.get(number, 0) + _whole(value) * unit
        return found


def reclaim_stats(text: str) -> ReclaimStats:
    """From v2's ``memory.stat``; before Linux 5.9 a working set is not split in two."""
    text = f"\n{text}"
    split = "\nworkingset_refault_anon " in text
    kinds = ("_anon", "_file") if split else ("",)
    refault, activate = (
        sum(_field(text, f"\nworkingset_{name}{kind} ") for kind in kinds)
        for name in ("refault", "activate")
    )
    inactive_anon, inactive_file, file, shmem, mapped, pgscan, pgsteal = (
        _field(text, f"\n{name} ")
        for name in (
            *("inactive_anon", "inactive_file", "file", "shmem"),
            *("file_mapped", "pgscan", "pgsteal"),
        )
    )
    cache = max(file - shmem, 0)
    return ReclaimStats(
        inactive_anon, inactive_file, cache, mapped, pgscan, pgsteal, refault, activate
    )


def dying_descendants(text: str) -> int:
    """The number of groups below that were removed and are still charged, from ``cgroup.stat``."""
    return _field(f"\n{text}", "\nnr_dying_descendants ")


def limit(text: str) -> int:
    """A limit in bytes; -1 for "max"."""
    return -1 if text.strip() == "max" else _whole(text)


def _field(text: str, name: str) -> int:
    """The number of the line ``name``, which has the newline before it and a blank after."""
    return _whole(_line(text, name))


def _line(text: str, name: str) -> str:
    start = text.find(name)
    if start < 0:
        raise ValueError(f'no line "{name.strip(_AROUND)}"')
    start += len(name)
    end = text.find("\n", start)
    return text[start:end] if end >= 0 else text[start:]


def _whole(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value <= _MOST:
        raise ValueError(f"{excerpt(text.strip())} where a counter belongs")
    return value
