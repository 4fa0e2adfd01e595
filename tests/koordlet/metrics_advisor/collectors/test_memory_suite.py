"""Waits for CPUs, free memory of NUMA nodes, and reclaim of pods."""

from __future__ import annotations

import pytest
from koord_host.kernel_files import zoneinfo
from koordlet.metrics_advisor.collectors import memory_stat, schedstat
from koordlet.metrics_advisor.collectors import zoneinfo as zoneinfo_collector
from koordlet.metrics_advisor.contract.collector import UnavailableError

from tests.koordlet.metrics_advisor.collectors.used_node import Rounds, UsedNode, pod, values
from tests.support.text_tree import TextTree

MIB = 1 << 20

# ---- schedstat

CPU = "cpu{} 0 0 0 0 0 0 {} {} 9\ndomain0 ff 0 0 0 0 1 2 3 4 5 6 7 8\n"


def test_a_cpus_tasks_wait_for_so_many_milliseconds_a_second() -> None:
    node = UsedNode(2)
    rounds = Rounds(schedstat.Collector(node.sources))
    cpuset = node.path("kubepods/besteffort", "cpuset", "cpuset.cpus.effective")

    def look(*waited: int) -> dict[tuple[str, ...], float]:
        lines = (CPU.format(cpu, 5_000_000_000, waits) for cpu, waits in enumerate(waited))
        node.tree.texts["/proc/schedstat"] = "version 15\ntimestamp 42\n" + "".join(lines)
        return values(rounds.look(seconds=10))

    assert look(0, 0, 0) == {}
    assert look(10**10, 4 * 10**9, 10**9) == {("node_cpu_sched_wait",): 500.0}
    node.tree.texts[cpuset] = "1-2\n"
    assert look(10**10, 5 * 10**9, 4 * 10**9) == {
        ("node_cpu_sched_wait",): pytest.approx(400 / 3),
        ("node_cpu_class_sched_wait", "be"): 200.0,
        ("node_cpu_class_sched_wait", "other"): 0.0,
    }


def test_a_kernel_without_schedstat_is_reported_and_a_bad_line_as_well() -> None:
    node = UsedNode(1)
    rounds = Rounds(schedstat.Collector(node.sources))
    with pytest.raises(UnavailableError, match="needs CONFIG_SCHEDSTATS"):
        rounds.look()
    node.tree.texts["/proc/schedstat"] = "version 14\ncpu0 1 2 3\n"
    found = rounds.look()
    assert found.partial == ("/proc/schedstat: no line of a CPU with nine counters",)


# ---- zoneinfo

ZONE = """\
Node {node}, zone   {zone}
  per-node stats
      nr_inactive_file 9999
  pages free     {free}
        boost    0
        min      {low}
        low      {low}
        high     {low}
        spanned  4095
        protection: (0, 1858, 1858, 1858)
      nr_free_pages {free}
      nr_zone_inactive_file 7
  pagesets
    cpu: 0
              count: 3
              high:  14
              high_min: 14
"""


def test_a_numa_node_is_the_sum_of_its_zones() -> None:
    node = UsedNode(2, page_bytes=65536)
    zones = [(0, "DMA", 3, 1), (0, "Normal", 100, 10), (1, "Normal", 50, 20), (1, "Movable", 5, 0)]
    node.tree.texts["/proc/zoneinfo"] = "".join(
        ZONE.format(node=number, zone=zone, free=free, low=low) for number, zone, free, low in zones
    )
    node.tree.texts[node.path("kubepods/besteffort", "memory", "memory.current")] = "12345\n"
    found = values(Rounds(zoneinfo_collector.Collector(node.sources)).look())
    expected = {("be_memory_current",): 12345.0}
    for number, free, low in (("0", 103, 11), ("1", 55, 20)):
        pages = {"free": free, "inactive_file": 14}
        pages |= {f"{name}_watermark": low for name in ("min", "low", "high")}
        for name, count in pages.items():
            expected[f"node_numa_memory_{name}", number] = 65536.0 * count  # type: ignore[index]
    assert found == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", 'no line "Node …, zone"'),
        ("Node 0, zone DMA\n  pages free 1\n", "node 0 has no line free, min"),
    ],
)
def test_zones_that_no_kernel_writes(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        zoneinfo.parse(text)


# ---- memory_stat


class RenewedTree(TextTree):
    """A tree in which a group can be made again under its name."""

    generation = 0

    def identity(self, path: str) -> int:
        return super().identity(path) + self.generation


BE = "kubepods/besteffort"


class Reclaimed:
    """A node with one pod, and what its cgroup counts."""

    def __init__(self) -> None:
        self.node = UsedNode(2)
        self.tree = RenewedTree()
        self.node.tree = self.tree
        object.__setattr__(self.node.sources, "tree", self.tree)
        self.rounds = Rounds(memory_stat.Collector(self.node.sources))
        self.tree.texts["/proc/meminfo"] = "MemTotal: 9 kB\nSwapFree: 2048 kB\n"

    def look(self, scanned: int, split: bool = True) -> dict[tuple[str, ...], float]:
        kinds = ("_anon", "_file") if split else ("",)
        self.put(
            f"{BE}/podu1",
            "memory.stat",
            f"anon 1\nfile 60\nshmem 20\nfile_mapped 10\ninactive_anon 5\ninactive_file 30\n"
            f"pgscan {scanned}\npgsteal {scanned // 2}\npgscan_direct 77\n"
            + "".join(f"workingset_refault{kind} {scanned // 10}\n" for kind in kinds)
            + "".join(f"workingset_activate{kind} {scanned // 20}\n" for kind in kinds),
        )
        return values(self.rounds.look(pod(above=BE), seconds=10))

    def put(self, group: str, file: str, text: str) -> None:
        self.tree.texts[self.node.path(group, "memory", file)] = text


def rates(found: dict[tuple[str, ...], float]) -> dict[str, float]:
    return {key[2]: rate for key, rate in found.items() if key[0] == "pod_memory_reclaim"}


def test_counters_grow_and_those_of_a_new_group_of_the_same_name_start_anew() -> None:
    of = Reclaimed()
    assert rates(of.look(10**6)) == {}
    grown = {"pgscan": 20, "pgsteal": 10, "workingset_refault": 4, "workingset_activate": 2}
    assert rates(of.look(10**6 + 200)) == grown
    of.tree.generation += 1
    assert rates(of.look(10**7)) == {}
    assert rates(of.look(10**7 + 200)) == grown
    # Before Linux 5.9 there is one counter of refaults.
    of = Reclaimed()
    of.look(0, split=False)
    assert rates(of.look(200, split=False))["workingset_refault"] == 2


def sizes(found: dict[tuple[str, ...], float]) -> dict[str, float]:
    return {key[2]: size for key, size in found.items() if key[0] == "pod_memory_stat"}


def test_what_can_be_reclaimed_and_the_swap_that_is_left() -> None:
    of = Reclaimed()
    found = {"inactive_anon": 5, "inactive_file": 30, "page_cache": 40, "file_mapped": 10}
    # Without swap accounting there is none that a pod may use.
    assert sizes(of.look(0)) == found | {"swap_free": 0}
    for group in (f"{BE}/podu1", f"{BE}/podu1/c1"):
        of.put(group, "memory.swap.max", "max\n")
        of.put(group, "memory.swap.current", "0\n")
    assert sizes(of.look(0))["swap_free"] == 2 * MIB
    of.put(f"{BE}/podu1/c1", "memory.swap.max", f"{MIB}\n")
    of.put(f"{BE}/podu1/c1", "memory.swap.current", "4096\n")
    assert sizes(of.look(0))["swap_free"] == MIB - 4096
    # As a kubelet does without NodeSwap.
    of.put(f"{BE}/podu1/c1", "memory.swap.max", "0\n")
    assert sizes(of.look(0))["swap_free"] == 0
    of.tree.texts["/proc/meminfo"] = "MemTotal: 9 kB\n"
    assert sizes(of.look(0))["swap_free"] == 0


def test_dying_groups_and_cgroup_v1() -> None:
    of = Reclaimed()
    of.put(BE, "cgroup.stat", "nr_descendants 3\nnr_dying_descendants 2001\n")
    assert values(of.rounds.look())["qos_dying_cgroups", "BestEffort"] == 2001
    rounds = Rounds(memory_stat.Collector(UsedNode(1).sources))
    with pytest.raises(UnavailableError, match=r"cgroup v1's memory\.stat has no"):
        rounds.look()
