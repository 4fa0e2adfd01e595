"""Statistics of cgroups: the kernel's text in, numbers out."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.kernel_files.cgroup_stats import CgroupStats, Throttling
from koord_host.knobs.layout import Driver, Layout

V1 = CgroupStats(Layout(1, Driver.CGROUPFS))
V2 = CgroupStats(Layout(2, Driver.CGROUPFS))

MEMORY_V1 = """\
cache 1
inactive_anon 1000000
active_anon 1000000
inactive_file 1000000
active_file 1000000
unevictable 1000000
hierarchical_memory_limit 9223372036854771712
total_cache 5
total_inactive_anon 10
total_active_anon 200
total_inactive_file 3000
total_active_file 40000
total_unevictable 500000
"""
MEMORY_V2 = """\
anon 7
file 7
file_mapped 7
inactive_anon 10
active_anon 200
inactive_file 3000
active_file 40000
unevictable 500000
slab 7
workingset_refault_anon 7
"""
NUMA_V1 = """\
total=999 N0=999 N8=999
file=999 N0=999 N8=999
anon=999 N0=999 N8=999
unevictable=999 N0=999 N8=999
hierarchical_total=99 N0=90 N8=9
hierarchical_file=70 N0=70 N8=0
hierarchical_anon=21 N0=15 N8=6
hierarchical_unevictable=8 N0=5 N8=3
"""
NUMA_V2 = """\
anon N0=7 N8=7
file N0=7 N8=7
inactive_anon N0=65536 N8=4096
active_anon N0=8192 N8=0
inactive_file N0=7 N8=7
active_file N0=7 N8=7
unevictable N0=0 N8=4096
"""
CPU_V2 = """\
usage_usec 1500
user_usec 1000
system_usec 500
nr_periods 40
nr_throttled 10
throttled_usec 123
"""


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (V1, ("cpuacct/g/cpuacct.usage", "cpu/g/cpu.stat", "memory/g/memory.stat",
              "memory/g/memory.numa_stat")),
        (V2, ("g/cpu.stat", "g/cpu.stat", "g/memory.stat", "g/memory.numa_stat")),
    ],
    ids=["v1", "v2"],
)  # fmt: skip
def test_where_the_files_are(stats: CgroupStats, expected: tuple[str, ...]) -> None:
    files = (stats.cpu_file, stats.throttling_file, stats.memory_file, stats.numa_file)
    assert [file("g") for file in files] == [f"/sys/fs/cgroup/{one}" for one in expected]


@pytest.mark.parametrize(("stats", "text"), [(V1, MEMORY_V1), (V2, MEMORY_V2)], ids=["v1", "v2"])
def test_memory_counts_groups_below_and_no_files(stats: CgroupStats, text: str) -> None:
    assert stats.memory(text) == 500_210
    assert stats.page_cache(text) == 43_000


@pytest.mark.parametrize("stats", [V1, V2], ids=["v1", "v2"])
def test_throttling_and_cpu_time_in_nanoseconds(stats: CgroupStats) -> None:
    assert stats.throttling(CPU_V2) == Throttling(40, 10)
    assert V2.throttling("usage_usec 5\nuser_usec 5\nsystem_usec 0\n") is None
    assert stats.cpu_nanoseconds("1500000\n" if stats is V1 else CPU_V2) == 1_500_000


@pytest.mark.parametrize("page", [4096, 65536])
def test_only_v1_counts_numa_memory_in_pages(page: int) -> None:
    first = CgroupStats(Layout(1, Driver.CGROUPFS), page)
    second = CgroupStats(Layout(2, Driver.CGROUPFS), page)
    assert first.numa_memory(NUMA_V1) == {0: 20 * page, 8: 9 * page}
    assert second.numa_memory(NUMA_V2) == {0: 73728, 8: 8192}


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (V1.cpu_nanoseconds, "many\n", '"many" where a counter belongs'),
        (V1.cpu_nanoseconds, "", '"" where a counter belongs'),
        (V1.cpu_nanoseconds, "-5\n", '"-5" where'),
        (V1.cpu_nanoseconds, "9" * 30, "where a counter belongs"),
        (V2.cpu_nanoseconds, "user_usec 5\n", 'no line "usage_usec"'),
        (V2.cpu_nanoseconds, "usage_usec \n", '"" where'),
        (V1.throttling, "", 'no line "nr_periods"'),
        (V2.throttling, "nr_periods 5\n", 'no line "nr_throttled"'),
        (V1.memory, MEMORY_V2, 'no line "total_inactive_anon"'),
        (V2.memory, "inactive_anon 1\nactive_anon x\nunevictable 1\n", '"x" where'),
        (V1.page_cache, "total_active_file 5", 'no line "total_inactive_file"'),
        (V1.numa_memory, NUMA_V2, 'no line "hierarchical_anon"'),
        (V2.numa_memory, NUMA_V2.replace("N8=4096", "N8"), '"" where'),
        (V2.numa_memory, NUMA_V2.replace("N8=4096", "Nx=1"), '"x" where'),
    ],
)
def test_what_no_kernel_says_is_refused(read, text, says) -> None:
    with pytest.raises(ValueError, match=says):
        read(text)


@given(st.text(max_size=60) | st.sampled_from([MEMORY_V1, NUMA_V1, NUMA_V2, CPU_V2]))
def test_any_text_gives_counters_or_is_refused(text: str) -> None:
    for stats in (V1, V2):
        for read in (stats.cpu_nanoseconds, stats.memory, stats.page_cache):
            # Nothing else is raised.
            with contextlib.suppress(ValueError):
                assert 0 <= read(text) < 3 << 74
        for read_pairs in (stats.numa_memory, stats.throttling):
            with contextlib.suppress(ValueError):
                read_pairs(text)
