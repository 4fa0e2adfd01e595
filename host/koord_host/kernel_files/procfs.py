"""The machine's CPU time and memory, out of the text of /proc and of sysfs's NUMA nodes.

Formats are proc(5)'s. Every function raises ``ValueError`` for what no kernel gives; the
message does not name the file.
"""

from __future__ import annotations

from typing import NamedTuple

from koord_model.excerpt import excerpt

_BUSY = (1, 2, 3, 6, 7)
"""user, nice, system, irq, softirq; a guest's time is in user already."""


class CPUTimes(NamedTuple):
    """Jiffies that were not idle since boot: of the whole machine, and by CPU that runs."""

    whole: int
    cpus: dict[int, int]


class MemInfo(NamedTuple):
    """The machine's memory in bytes; ``available`` is ``None`` before Linux 3.14.

    ``total`` is without ``huge_pages``, which are set aside, in use or not: they are neither
    free nor available, whatever ends.
    """

    total: int
    free: int
    available: int | None
    huge_pages: int = 0

    @property
    def whole(self) -> int:
        """All of it, huge pages too."""
        return self.total + self.huge_pages


def cpu_times(text: str) -> CPUTimes:
    """From /proc/stat."""
    # The line of interrupts that follows the CPUs' is longer than all of them.
    end = text.find("\nintr")
    whole, cpus = None, {}
    for line in (text if end < 0 else text[:end]).split("\n"):
        if not line.startswith("cpu"):
            continue
        words = line.split(None, 8)
        try:
            busy = _jiffies(words)
            if words[0] == "cpu":
                whole = busy
            else:
                cpus[int(words[0][3:])] = busy
        except (ValueError, IndexError):
            raise ValueError(f"{excerpt(line)} where a CPU's times belong") from None
    if whole is None:
        raise ValueError('no line "cpu"')
    return CPUTimes(whole, cpus)


def _jiffies(words: list[str]) -> int:
    busy = sum(int(words[place]) for place in _BUSY)
    if not 0 <= busy < 1 << 64:
        raise ValueError("no counter of the kernel's")
    return busy


def memory(text: str) -> MemInfo:
    """From /proc/meminfo."""
    available = _bytes(text, "MemAvailable:") if "MemAvailable:" in text else None
    huge = _huge_pages(text)
    total = max(_bytes(text, "MemTotal:") - huge, 0)
    return MemInfo(total, _bytes(text, "MemFree:"), available, huge)


def swap_free(text: str) -> int:
    """Free swap of the machine in bytes, from /proc/meminfo; 0 of a kernel without swap."""
    return _bytes(text, "SwapFree:") if "\nSwapFree:" in text else 0


def _huge_pages(text: str) -> int:
    """Of all sizes; before Linux 4.19 those of the default size alone are shown."""
    if "\nHugetlb:" in text:
        return _bytes(text, "Hugetlb:")
    if "\nHugePages_Total:" not in text:
        return 0
    # Its line is a number of pages, and no amount.
    return (_bytes(text, "HugePages_Total:") >> 10) * _bytes(text, "Hugepagesize:")


def uptime(text: str) -> float:
    """Seconds since boot, suspended ones too, from /proc/uptime."""
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        raise ValueError(f"{excerpt(text.strip())} where the time since boot belongs") from None


def direct_reclaims(text: str) -> int:
    """Times that tasks reclaimed memory of the node themselves, from /proc/vmstat."""
    found = [line.split() for line in text.splitlines() if line.startswith("allocstall")]
    try:
        return sum(int(value) for _, value in found)
    except ValueError:
        raise ValueError(f"{excerpt(str(found))} where counters belong") from None


def network_bytes(text: str) -> int:
    """Bytes that interfaces received and sent, without loopback, from /proc/PID/net/dev."""
    total = 0
    for line in text.splitlines()[2:]:
        name, _, counters = line.partition(":")
        words = counters.split()
        try:
            total += 0 if name.strip() == "lo" else int(words[0]) + int(words[8])
        except (ValueError, IndexError):
            raise ValueError(f"{excerpt(line.strip())} where an interface belongs") from None
    return total


class TCPCounters(NamedTuple):
    """Counts of the TCP connections of a network namespace since it was made.

    ``opened`` counts connections made and accepted, ``established`` those that are, and ``sent``
    segments, again or for the first time.
    """

    opened: int
    established: int
    sent: int


def tcp_counters(text: str) -> TCPCounters:
    """From /proc/PID/net/snmp."""
    lines = [line.split() for line in text.splitlines() if line.startswith("Tcp:")]
    try:
        names, values = lines
        count = {name: int(value) for name, value in zip(names[1:], values[1:], strict=True)}
        return TCPCounters(
            count["ActiveOpens"] + count["PassiveOpens"],
            count["CurrEstab"],
            count["OutSegs"] + count["RetransSegs"],
        )
    except (ValueError, KeyError):
        raise ValueError(f"{excerpt(str(lines))} where TCP's counters belong") from None


def numa_memory_used(text: str) -> int:
    """Memory of a NUMA node without page cache, in bytes, from its ``meminfo`` in sysfs.

    By Koordinator's formula: all but what is free, pages of files and reclaimable slabs.
    """
    unused = ("MemFree:", "Active(file):", "Inactive(file):", "SReclaimable:")
    return max(_bytes(text, "MemTotal:") - sum(_bytes(text, name) for name in unused), 0)


def _bytes(text: str, name: str) -> int:
    """The value of "NAME: 12 kB", or of "Node 0 NAME: 12 kB"."""
    start = text.find(f" {name}") if text.startswith("Node ") else f"\n{text}".find(f"\n{name}")
    if start < 0:
        raise ValueError(f'no line "{name}"')
    line = text[start:].partition("\n")[0]
    words = line.partition(":")[2].split()
    try:
        value = int(words[0]) << 10
    except (ValueError, IndexError):
        value = -1
    if not 0 <= value < 1 << 63:
        raise ValueError(f"{excerpt(line.strip())} where an amount of memory belongs")
    return value
