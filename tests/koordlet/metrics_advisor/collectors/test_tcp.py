"""Connections of containers, over connections that come and go."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Sequence

import pytest
from koord_host.knobs.layout import Driver, Layout
from koord_host.netlink.tcp_diag import Connection
from koordlet.metrics_advisor.collectors import tcp
from koordlet.metrics_advisor.collectors.tcp import namespaces
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.koordlet.metrics_advisor.collectors.used_node import pod, values
from tests.support.text_tree import TextTree

HOST, PODS = 1, 2
C1, C2 = 11, 12
"""Ids of the containers' cgroups."""


class Node:
    """Namespaces with connections; implements ``ConnectionTable``, refuses as the kernel does.

    As the kernel, it counts what the connections of a namespace did. ``asked`` are the processes
    through which it was asked, for all connections or by cookie; each answer took ``cpu`` seconds.
    """

    def __init__(self, *records: PodRecord, version: int = 2) -> None:
        self.records = records or (pod(containers=("c1", "c2")),)
        self.layout = Layout(version, Driver.CGROUPFS)
        self.tree = _Tree({})
        self.namespaces: dict[int, list[Connection]] = {PODS: []}
        self.error: OSError | None = None
        self.seconds = self.cpu = self._used = 0.0
        self.asked: list[tuple[int, tuple[int, ...]]] = []
        self.ending: list[Connection] | None = None
        """Connections that are there once the counters were read."""
        self._seen: dict[int, dict[int, Connection]] = {}
        self._inodes: dict[int, int] = {}
        sources = CollectorSources(self.tree, self.layout, connections=self)
        self._collector = tcp.Collector(sources)

    def process(self, number: int, namespace: int = PODS, group: str = "podu1/c1") -> None:
        self.tree.texts[self.layout.list_file(f"kubepods/{group}")] = f"{number}\n"
        self._inodes[number] = namespace

    def traffic(self, received: int, number: int = 7) -> None:
        self.tree.texts[f"/proc/{number}/net/dev"] = (
            "Inter-|   Receive |  Transmit\n face |bytes |bytes\n"
            f"    lo: 99999 0 0 0 0 0 0 0 99999 0 0 0 0 0 0 0\n"
            f"  eth0: {received} 1 0 0 0 0 0 0 50 1 0 0 0 0 0 0\n"
        )

    def namespace(self, process: int | None = None) -> int:
        if process is None:
            return HOST
        if process not in self._inodes:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return self._inodes[process]

    def read(self, process: int, most: int) -> tuple[list[Connection], bool]:
        found = self._ask(process)
        return found[:most], len(found) <= most

    def read_again(self, process: int, known: Sequence[Connection]) -> list[Connection]:
        cookies = tuple(each.cookie for each in known)
        return [each for each in self._ask(process, *cookies) if each.cookie in cookies]

    def cpu_time(self) -> float:
        return self._used

    def _ask(self, process: int, *cookies: int) -> list[Connection]:
        if self.error is not None:
            raise self.error
        self.asked.append((process, cookies))
        self._used += self.cpu
        if self.ending is not None:
            self.namespaces[PODS], self.ending = self.ending, None
        return self.namespaces[self.namespace(process)]

    def _count(self, process: int, namespace: int) -> None:
        """Write the kernel's counters; what has ended stays counted."""
        seen = self._seen.setdefault(namespace, {})
        there = self.namespaces.get(namespace, [])
        seen.update((each.cookie, each) for each in there)
        sent = sum(each.segments for each in seen.values())
        self.tree.texts[f"/proc/{process}/net/snmp"] = (
            "Ip: Forwarding\nIp: 1\nTcp: ActiveOpens PassiveOpens CurrEstab OutSegs RetransSegs\n"
            f"Tcp: {len(seen)} 0 {len(there)} {sent} 0\n"
        )

    def run(self, *connections: Connection) -> dict[tuple[str, ...], float]:
        self.namespaces[PODS] = list(connections)
        return values(self.samples())

    def samples(self) -> Samples:
        self.seconds += 5.0
        for process, namespace in self._inodes.items():
            self._count(process, namespace)
        self.asked.clear()
        return self._collector.collect(CollectContext(0.0, self.seconds, self.records))


class _Tree(TextTree):
    def identity(self, path: str) -> int:
        return {"c1": C1, "c2": C2}[path.rpartition("/")[2]]


def connection(
    cookie: int, rtt: int, segments: int, again: int = 0, cgroup: int = C1
) -> Connection:
    return Connection(cookie, cgroup, rtt, again, segments)


def of(name: str, what: str) -> tuple[str, ...]:
    return (f"container_tcp_{what}", "u1", name)


def test_connections_are_their_containers_and_count_since_the_last_round() -> None:
    node = Node()
    node.process(7)
    first = [connection(1, 500, 1000, 100), connection(2, 900, 1000), connection(3, 9, 9, 0, C2)]
    assert node.run(*first) == {}
    assert node.run(
        connection(1, 2000, 1080, 110),
        connection(2, 90_000, 1000),  # idle: its time is an old one
        connection(4, 4000, 20, 0),  # new: counts from its start
        connection(3, 7000, 10, 1, C2),
        connection(5, 1, 100, 0, cgroup=999),  # of a cgroup that is no container's
    ) == {of("c1", "rtt"): 3.0, of("c1", "retransmits"): 0.1, of("c2", "rtt"): 7.0}
    # The first is gone, with what it had sent again.
    assert node.run(connection(4, 5000, 80, 0)) == {
        of("c1", "rtt"): 5.0,
        of("c1", "retransmits"): 0.0,
    }
    assert of("c1", "retransmits") not in node.run(connection(4, 5000, 90, 4))
    assert node.run(connection(4, 5000, 100, 9))[of("c1", "retransmits")] == 0.5


@pytest.mark.parametrize(
    ("containers", "version", "namespace", "found"),
    [
        (("c1",), 2, PODS, True),
        (("c1",), 1, PODS, True),
        (("c1", "c2"), 1, PODS, False),
        (("c1",), 2, HOST, False),
    ],
)
def test_connections_of_no_container_s_cgroup_are_those_of_an_only_container(
    containers: tuple[str, ...], version: int, namespace: int, found: bool
) -> None:
    node = Node(pod(containers=containers), version=version)
    node.process(7, namespace)
    for segments in (10, 20):
        node.namespaces[namespace] = [connection(1, 3000, segments, cgroup=999)]
        samples = values(node.samples())
    assert samples == ({of("c1", "rtt"): 3.0} if found else {})


def test_traffic_is_the_pod_s_where_the_namespace_is() -> None:
    node = Node()
    node.process(7)
    node.traffic(1000)
    assert node.run() == {}
    node.traffic(6000)
    assert node.run() == {("pod_network_usage", "u1"): 1000.0}
    node.process(7, HOST)
    node.namespaces[HOST] = []
    assert node.run() == {}
    # Back in a namespace of its own, whose interfaces count from zero.
    node.process(7)
    node.traffic(10)
    assert node.run() == {}
    node.traffic(5)
    assert node.run() == {}


def test_a_process_that_has_ended_or_a_kernel_that_is_silent_costs_only_that_pod() -> None:
    node = Node(pod("u1"), pod("u2"), pod("u3"))
    node.process(7)
    node.process(8, group="podu2/c1")
    node.tree.texts[node.layout.list_file("kubepods/podu2/c1")] = "88\n"
    node.run(connection(1, 1, 1))
    assert node.run(connection(1, 3000, 2)) == {of("c1", "rtt"): 3.0}
    node.error = TimeoutError("timed out")
    node.namespaces[PODS] = [connection(1, 3000, 3)]
    found = node.samples()
    assert found.partial == ("connections of kubepods/podu1: timed out",)
    node.error = PermissionError(errno.EPERM, "Operation not permitted")
    with pytest.raises(UnavailableError, match="CAP_SYS_ADMIN"):
        node.samples()


def test_connections_beyond_the_bound_are_not_mistaken_for_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(namespaces, "_MOST_OF_NAMESPACE", 2)
    node = Node()
    node.process(7)
    node.run(*(connection(cookie, 1000, 500) for cookie in (1, 2, 3)))
    assert node.run(connection(2, 2000, 501), connection(3, 9000, 999)) == {of("c1", "rtt"): 2.0}


def test_only_namespaces_in_which_something_happened_are_asked() -> None:
    node = Node()
    node.process(7)
    everything, one_by_one = [(7, ())], [(7, (1, 2))]
    steps: list[tuple[tuple[Connection, ...], list[tuple[int, tuple[int, ...]]], float | None]] = [
        ((connection(1, 1000, 1), connection(2, 1000, 1)), everything, None),
        ((connection(1, 1000, 1), connection(2, 1000, 1)), [], None),
        ((connection(1, 2000, 2), connection(2, 1000, 1)), one_by_one, 2.0),
        # One is closed; then, with as many established as before, another is there.
        ((connection(1, 3000, 3),), everything, 3.0),
        ((connection(3, 4000, 1),), everything, 4.0),
        ((connection(3, 5000, 2),), [(7, (3,))], 5.0),
    ]
    for connections, asked, rtt in steps:
        assert node.run(*connections).get(of("c1", "rtt")) == rtt
        assert node.asked == asked


def test_a_connection_that_is_gone_without_a_trace_in_the_counters_has_all_read_again() -> None:
    node = Node()
    node.process(7)
    node.run(connection(1, 1000, 1), connection(2, 1000, 1))
    # It ends between the counters and the question.
    node.namespaces[PODS] = [connection(1, 1000, 9), connection(2, 1000, 1)]
    node.ending = [connection(1, 1000, 9)]
    node.samples()
    assert node.asked == [(7, (1, 2))]
    node.samples()
    assert node.asked == [(7, ())]


def test_namespaces_take_turns_where_reading_all_of_them_takes_long() -> None:
    node = Node(pod("u1"), pod("u2"), pod("u3"))
    for number in (1, 2, 3):
        node.process(number, 100 + number, f"podu{number}/c1")
    node.cpu = 0.03  # two in a round
    asked: list[list[int]] = []
    found: Counter[str] = Counter()
    for turn in range(7):
        for number in (1, 2, 3):
            made = [connection(10 * number + turn, 1000, 0), connection(number, 1000, turn * 100)]
            node.namespaces[100 + number] = made
        found.update(uid for _, uid, *_ in values(node.samples()))
        asked.append([process for process, _ in node.asked])
    assert asked == [[1, 2], [3, 1], [2, 3], [1, 2], [3, 1], [2, 3], [1, 2]]
    # Time and loss, each since its own last turn.
    assert all(count >= 2 * 3 for count in found.values())
    assert found.keys() == {"u1", "u2", "u3"}
