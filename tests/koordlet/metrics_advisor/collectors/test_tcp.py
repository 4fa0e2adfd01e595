"""Connections of containers, over connections that come and go."""

from __future__ import annotations

import errno

import pytest
from koord_host.knobs.layout import Driver, Layout
from koord_host.netlink.tcp_diag import Connection
from koordlet.metrics_advisor.collectors import tcp
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
    """Namespaces with connections; implements ``ConnectionTable``, refuses as the kernel does."""

    def __init__(self, *records: PodRecord, version: int = 2) -> None:
        self.records = records or (pod(containers=("c1", "c2")),)
        self.layout = Layout(version, Driver.CGROUPFS)
        self.tree = _Tree({})
        self.namespaces: dict[int, list[Connection]] = {PODS: []}
        self.error: OSError | None = None
        self.seconds = 0.0
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
        if self.error is not None:
            raise self.error
        found = self.namespaces[self.namespace(process)]
        return found[:most], len(found) <= most

    def run(self, *connections: Connection) -> dict[tuple[str, ...], float]:
        self.namespaces[PODS] = list(connections)
        return values(self.samples())

    def samples(self) -> Samples:
        self.seconds += 5.0
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
    found = node.samples()
    assert found.partial == ("connections of kubepods/podu1: timed out",)
    node.error = PermissionError(errno.EPERM, "Operation not permitted")
    with pytest.raises(UnavailableError, match="CAP_SYS_ADMIN"):
        node.samples()


def test_connections_beyond_the_bound_are_not_mistaken_for_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tcp, "_MOST_OF_NAMESPACE", 2)
    node = Node()
    node.process(7)
    node.run(*(connection(cookie, 1000, 500) for cookie in (1, 2, 3)))
    assert node.run(connection(2, 2000, 501), connection(3, 9000, 999)) == {of("c1", "rtt"): 2.0}
