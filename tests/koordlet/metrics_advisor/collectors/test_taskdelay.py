"""Waits of tasks, over processes that come, go and give their numbers on."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.kernel_files.processes import Process
from koord_host.knobs.layout import Driver, Layout
from koord_host.netlink.taskstats import ProcessDelays
from koordlet.metrics_advisor.collectors import schedstat, taskdelay
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)

from tests.koordlet.metrics_advisor.collectors.used_node import Rounds, UsedNode, pod, values
from tests.support.text_tree import TextTree

MS = 10**6
SECOND = 10**9
CONTAINER = "/sys/fs/cgroup/kubepods/podu1/c1"


class Node:
    """A node whose containers' processes are given; implements ``TaskDelayCounters``.

    As the kernel, it knows only processes that run, and counts since each one's start.
    """

    def __init__(self, **texts: str) -> None:
        self.tree = _Tree({"/proc/vmstat": "allocstall_dma 1\nallocstall_normal 4\n"})
        self.delays: dict[int, ProcessDelays] = {}
        self.seconds = 0.0
        self.refuses = 0
        self._collector = taskdelay.Collector(
            CollectorSources(self.tree, Layout(2, Driver.CGROUPFS), delays=self)
        )

    def read(self, processes: Sequence[int]) -> dict[int, ProcessDelays]:
        if self.refuses:
            raise OSError(self.refuses, "Operation not permitted")
        return {pid: self.delays[pid] for pid in processes if pid in self.delays}

    def run(
        self, *running: tuple[int, int, ProcessDelays], group: str = CONTAINER, after: float = 10.0
    ) -> dict[tuple[str, ...], float]:
        """Collect, while number, start (seconds since boot) and delays of processes are these."""
        return values(self.samples(*running, group=group, after=after))

    def samples(
        self, *running: tuple[int, int, ProcessDelays], group: str = CONTAINER, after: float = 10.0
    ) -> Samples:
        self.seconds += after
        self.tree.remove("/sys/fs/cgroup")
        texts = self.tree.texts
        texts[f"{CONTAINER}/cgroup.procs"] = ""
        texts[f"{group}/cgroup.procs"] = "0\n" + "".join(f"{pid}\n" for pid, _, _ in running)
        texts["/proc/uptime"] = f"{self.seconds:.2f} 1.00\n"
        for pid, start, delays in running:
            texts[f"/proc/{pid}/stat"] = f"{pid} (a) b) {'0 ' * 19}{start * 100} 0\n"
            self.delays[pid] = delays
        return self._collector.collect(CollectContext(0.0, self.seconds, (pod(),)))


class _Tree(TextTree):
    """Gives each process's directory an inode of its own, and now and then another."""

    def identity(self, path: str) -> int:
        forgotten = len(self.reads) // 20
        return hash((super().identity(path), self.texts[f"{path}/stat"], forgotten))


def wait(node: Node, *running: tuple[int, int, ProcessDelays]) -> float | None:
    """Milliseconds waited for each second used, of container and pod alike."""
    found = node.run(*running)
    of_pod = found.get(("pod_cpu_sched_wait", "u1"))
    assert found.get(("container_cpu_sched_wait", "u1", "c1")) == of_pod
    return of_pod


def used(cpu_ms: int, wait_ms: int) -> ProcessDelays:
    return ProcessDelays(cpu_ms * MS, wait_ms * MS)


def test_processes_that_come_go_and_give_their_numbers_on_never_make_it_jump() -> None:
    node = Node()
    assert wait(node, (7, 1, used(9000, 9000))) is None, "there is nothing to compare"
    assert wait(node, (7, 1, used(9500, 9100))) == 200
    # Another comes: its whole life counts. One older than the last round has moved in: its past
    # does not.
    grown, born, moved = (7, 1, used(9600, 9110)), (8, 25, used(100, 90)), (9, 2, used(10**6, 0))
    assert wait(node, grown, born, moved) == 500
    # The first has ended; what it had waited does not go away.
    assert wait(node, (8, 25, used(200, 190)), (9, 2, used(10**6, 0))) == 1000
    # Its number was given to a younger one, which has counted more than it ever did.
    assert wait(node, (7, 45, used(50_000, 5_000)), (9, 2, used(10**6, 0))) == 100
    assert wait(node, (7, 45, used(50_005, 5_100))) is None, "it used next to nothing"
    # At once, between two looks, and this one has counted less.
    assert wait(node, (7, 65, used(1_000, 500))) == 500


def test_a_second_of_cpu_used_is_no_second_of_a_cpu() -> None:
    """Katalyst's number is that of a node's CPUs: the pods' times the busy part of these."""
    node, cpus = Node(), UsedNode(1)
    rounds = Rounds(schedstat.Collector(cpus.sources))
    for ran, waited in ((0, 0), (8_000, 4_000)):
        of_pod = wait(node, (7, 1, used(ran, waited)))
        lines = (f"cpu{cpu} 0 0 0 0 0 0 {ran * MS // 2} {waited * MS // 2} 9\n" for cpu in (0, 1))
        cpus.tree.texts["/proc/schedstat"] = "version 15\ntimestamp 42\n" + "".join(lines)
        of_cpus = values(rounds.look(seconds=10))
    assert of_pod == 500
    assert of_cpus == {("node_cpu_sched_wait",): 500 * 8 / (2 * 10)}


def test_processes_are_found_in_groups_that_the_container_made() -> None:
    node = Node()
    for cpu in (100, 200):
        found = node.run((7, 1, used(cpu, cpu)), group=f"{CONTAINER}/init/deep")
    assert found["container_cpu_sched_wait", "u1", "c1"] == 1000


def test_waits_for_memory_and_disks() -> None:
    node = Node()
    start = ProcessDelays(waits=1)
    node.run((7, 1, start))
    node.tree.texts["/proc/vmstat"] = "allocstall_dma 1\nallocstall_normal 24\n"
    waited = ProcessDelays(
        disk_wait=80 * MS,
        disk_waits=8,
        reclaim=100 * MS,
        compaction=50 * MS,
        swapin=20 * MS,
        thrashing=50 * MS,
        waits=9,
    )
    assert node.run((7, 1, waited)) == {
        ("container_memory_delay", "u1", "c1"): 20,
        ("container_disk_wait", "u1", "c1"): 10,
        ("node_memory_allocstall",): 2,
    }
    few = waited._replace(disk_waits=12, disk_wait=SECOND)
    assert ("container_disk_wait", "u1", "c1") not in node.run((7, 1, few))
    long = few._replace(disk_waits=15, disk_wait=4 * SECOND)
    assert node.run((7, 1, long))["container_disk_wait", "u1", "c1"] == 1000


@pytest.mark.parametrize(("acct", "waits"), [("0\n", 5), ("1\n", 0)])
def test_what_the_kernel_does_not_account_is_not_zero(acct: str, waits: int) -> None:
    node = Node()
    node.tree.texts["/proc/sys/kernel/task_delayacct"] = acct
    node.samples((7, 1, ProcessDelays(waits=waits)))
    found = node.samples((7, 1, ProcessDelays(waits=waits)))
    assert set(values(found)) == {("node_memory_allocstall",)}
    assert any("kernel.task_delayacct is 0" in line for line in found.partial) == (acct == "0\n")


@pytest.mark.parametrize(
    ("version", "file", "before", "after"),
    [
        (2, "memory.events", "low 9\nhigh 1\nmax 2\noom 0\n", "low 99\nhigh 11\nmax 12\noom 0\n"),
        (1, "memory.failcnt", "3\n", "23\n"),
    ],
)
def test_hits_of_its_own_limit(version: int, file: str, before: str, after: str) -> None:
    layout = Layout(version, Driver.CGROUPFS)
    path = f"{layout.group_path('kubepods/podu1/c1', 'memory')}/{file}"
    tree = TextTree({path: before})
    one = taskdelay.Collector(CollectorSources(tree, layout, delays=Node()))
    one.collect(CollectContext(0.0, 0.0, (pod(),)))
    tree.texts[path] = after
    found = one.collect(CollectContext(0.0, 10.0, (pod(),)))
    assert values(found) == {("container_memory_limited", "u1", "c1"): 2}


def test_a_kernel_that_refuses_makes_it_unavailable_and_the_next_round_starts_anew() -> None:
    node = Node()
    node.run((7, 1, used(100, 0)))
    node.refuses = errno.EPERM
    with pytest.raises(UnavailableError, match="CAP_NET_ADMIN"):
        node.run((7, 1, used(100, 0)))
    node.refuses = 0
    assert node.run((7, 1, used(900, 0))) == {}


def test_a_fork_bomb_costs_as_much_as_512_processes() -> None:
    node = Node()
    found = node.samples(*((pid, 1, used(0, 0)) for pid in range(1, 600)))
    assert "only 512 of its processes" in "".join(found.partial)
    assert "/proc/512/stat" in node.tree.reads
    assert "/proc/513/stat" not in node.tree.reads


DELAYS = st.builds(ProcessDelays, *[st.integers(0, 2**64 - 1)] * len(ProcessDelays._fields))
ROUND = st.dictionaries(
    st.builds(Process, st.just("g"), st.integers(1, 4), st.integers(0, 4)), DELAYS
)


@given(ROUND, ROUND, st.integers(0, 5))
def test_growth_is_never_negative_nor_more_than_what_lives_ever_waited(
    last: dict[Process, ProcessDelays], now: dict[Process, ProcessDelays], ticks: int
) -> None:
    grown = taskdelay.growth(last, now, ticks)
    for field, value in enumerate(grown):
        assert 0 <= value <= sum(delays[field] for delays in now.values())
