"""/proc and NUMA nodes: the kernel's text in, jiffies and bytes out."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.kernel import KernelFilesystem
from koord_host.kernel_files import procfs

STAT = """\
cpu  100 20 3 9999 8888 40 5 7777 60 6
cpu0 1 0 0 9 9 0 0 9 9 9
cpu7 99 20 3 9 9 40 5 9 9 9
intr 5 cpu 1 2 3
ctxt 9
"""
MEMINFO = """\
MemTotal:       1000 kB
MemFree:         300 kB
MemAvailable:    700 kB
SwapFree:          1 kB
"""
NODE = """\

Node 8 MemTotal:       1000 kB
Node 8 MemFree:         100 kB
Node 8 MemUsed:         900 kB
Node 8 Active:           70 kB
Node 8 Inactive:         70 kB
Node 8 Active(anon):     50 kB
Node 8 Inactive(anon):   50 kB
Node 8 Active(file):     20 kB
Node 8 Inactive(file):   30 kB
Node 8 KReclaimable:    999 kB
Node 8 SReclaimable:     40 kB
Node 8 HugePages_Total:     0
""".removeprefix("\n")


def test_busy_is_neither_idle_nor_waiting_nor_stolen_nor_a_guests_twice() -> None:
    assert procfs.cpu_times(STAT) == procfs.CPUTimes(168, {0: 1, 7: 167})


def test_no_line_after_the_cpus_is_read() -> None:
    assert procfs.cpu_times("cpu 1 1 1 1 1 1 1 1\n").whole == 5


def test_memory_in_bytes() -> None:
    assert procfs.memory(MEMINFO) == (1000 << 10, 300 << 10, 700 << 10, 0)


@pytest.mark.parametrize(
    "lines",
    [
        "HugePages_Total: 100\nHugepagesize: 2 kB\n",
        "HugePages_Total: 1\nHugepagesize: 2 kB\nHugetlb: 200 kB\n",
    ],
    ids=["before Linux 4.19", "of all sizes"],
)
def test_huge_pages_are_set_aside_used_or_not(lines: str) -> None:
    found = procfs.memory(MEMINFO + lines)
    assert (found.total, found.huge_pages, found.whole) == (800 << 10, 200 << 10, 1000 << 10)
    assert procfs.memory(MEMINFO + "HugePages_Total: 0\nHugepagesize: 2 kB\n").huge_pages == 0


def test_old_kernels_do_not_say_what_is_available() -> None:
    assert procfs.memory(MEMINFO.replace("MemAvailable", "Other")).available is None


def test_numa_memory_is_without_files() -> None:
    assert procfs.numa_memory_used(NODE) == (1000 - 100 - 20 - 30 - 40) << 10


def test_numa_memory_is_never_less_than_none() -> None:
    assert procfs.numa_memory_used(NODE.replace("MemFree:         100", "MemFree: 5000")) == 0


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (procfs.cpu_times, "", 'no line "cpu"'),
        (procfs.cpu_times, "cpu0 1 1 1 1 1 1 1 1\n", 'no line "cpu"'),
        (procfs.cpu_times, "cpu 1 1 1\n", "where a CPU's times belong"),
        (procfs.cpu_times, f"cpu {'9' * 99} 1 1 1 1 1 1 1\n", "where a CPU's times belong"),
        (procfs.cpu_times, "cpu -9 1 1 1 1 1 1 1\n", '"cpu -9 1 1 1 1 1 1 1" where'),
        (procfs.cpu_times, "cpu a b c d e f g h\n", '"cpu a b c d e f g h" where'),
        (procfs.cpu_times, "cpu 1 1 1 1 1 1 1 1\ncpux 1 1 1 1 1 1 1 1\n", "cpux"),
        (procfs.memory, "MemTotal: 5 kB\n", 'no line "MemFree:"'),
        (procfs.memory, MEMINFO.replace("1000", "lots"), '"MemTotal:       lots kB" where'),
        (procfs.memory, MEMINFO.replace("1000", "-5"), "where an amount of memory belongs"),
        (procfs.memory, MEMINFO.replace("700 kB", ""), "where an amount of memory belongs"),
        (procfs.numa_memory_used, MEMINFO, 'no line "Active\\(file\\):"'),
        (procfs.tcp_counters, "Tcp: ActiveOpens\nTcp: 1\n", "where TCP's counters belong"),
        (procfs.tcp_counters, "Udp: InDatagrams\n", "where TCP's counters belong"),
    ],
)
def test_what_no_kernel_says_is_refused(read, text, says) -> None:
    with pytest.raises(ValueError, match=says):
        read(text)


@given(st.text(alphabet="cpu01 -x\n:Nodemti9", max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (procfs.cpu_times, procfs.memory, procfs.numa_memory_used):
        # Nothing else is raised.
        with contextlib.suppress(ValueError):
            read(text)


def test_this_machines_kernel_is_understood() -> None:
    kernel = KernelFilesystem()
    times = procfs.cpu_times(kernel.read("/proc/stat"))
    tcp = procfs.tcp_counters(kernel.read("/proc/net/snmp"))
    assert tcp.opened >= tcp.established >= 0
    assert times.whole >= sum(times.cpus.values()) * 0.9 > 0
    memory = procfs.memory(kernel.read("/proc/meminfo"))
    assert memory.available is not None
    assert 0 < memory.available <= memory.total
