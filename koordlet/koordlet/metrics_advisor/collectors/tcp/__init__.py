"""Latency and loss on containers' TCP connections, and the traffic of pods.

Sources: sock_diag in each pod's network namespace (``/proc/PID/ns/net`` of one of its processes),
``/proc/PID/net/dev``, ``/proc/PID/net/snmp``. Samples, over the time since the last round:

- ``container_tcp_rtt``: the smoothed round-trip time in milliseconds, the median of the
  connections on which data was sent;
- ``container_tcp_retransmits``: the part of segments that were sent again;
- ``pod_network_usage``: bytes a second that the pod's interfaces received and sent.

A connection is of the container whose cgroup (v2) made it; one of another cgroup belongs to the
pod's container if it has but one. Connections within the machine's loopback are left out, and
pods in the host's namespace have no ``pod_network_usage``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from statistics import median
from typing import NamedTuple

from koord_host.kernel_files.procfs import network_bytes
from koord_host.netlink.tcp_diag import Connection

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.collectors.tcp.namespaces import (
    Labels,
    Namespace,
    NamespaceReader,
    Visit,
    ended,
)
from koordlet.metrics_advisor.contract.cgroup_reading import (
    FileReading,
    LabelledCgroup,
    PerPodCache,
    SampleSpacing,
    groups,
    pids_of,
)
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    ConnectionTable,
    Samples,
    UnavailableError,
)

INTERVAL = "tcp_collector_interval"
ENABLED_BY = ("TCPCollector",)
BLOCKING = True
"""For a thread of its own: it enters the pods' network namespaces."""

_LEAST_SEGMENTS = 50
_MANY_AGAIN = 5
"""Segments sent again that say enough of fewer: who loses many sends few."""
_REFUSED = "entering network namespaces takes CAP_SYS_ADMIN and the host's PID namespace"

_SOLE = -1
"""Stands for the cgroup of a pod's only container, of whatever cgroup its connections are."""


class _Round(NamedTuple):
    """Counters of one round: namespaces by inode, and bytes by pod's labels."""

    steady: float
    namespaces: Mapping[int, Namespace]
    traffic: Mapping[Labels, int]


class Collector:
    """Compares connections with what they were at the last round."""

    def __init__(self, sources: CollectorSources) -> None:
        self._sources = sources
        self._proc = sources.layout.proc_root
        self._pace = SampleSpacing()
        self._groups = PerPodCache(lambda record: groups(record, sources.layout))
        self._last: _Round | None = None

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        if self._sources.connections is None:
            raise UnavailableError("this program was given no access to sock_diag")
        if self._pace.too_soon(context.steady):
            return Samples()
        last, self._last = self._last, None
        reading = FileReading(self._sources.tree)
        try:
            now = self._read(context, self._sources.connections, last, reading)
        except PermissionError as error:
            raise UnavailableError(f"{error.strerror}: {_REFUSED}") from error
        self._last = now
        samples = [] if last is None else [*_of_containers(last, now), *_of_pods(last, now)]
        return Samples(samples, partial=tuple(dict.fromkeys(reading.partial)))

    def _read(
        self,
        context: CollectContext,
        table: ConnectionTable,
        last: _Round | None,
        reading: FileReading,
    ) -> _Round:
        visits: dict[int, Visit] = {}
        traffic: dict[Labels, int] = {}
        host = table.namespace()
        for pod, *containers in self._groups.of(context.pods):
            process, where = self._process(containers), 0
            with ended(pod.group, reading):
                where = table.namespace(process) if process else 0
            if not where:
                continue
            visit = visits.setdefault(where, Visit(process, pod.group, {}))
            visit.owners.update(self._owners(containers, where == host))
            if where != host:
                counted = reading.of_group(f"{self._proc}/{process}/net/dev", network_bytes)
                if counted is not None:
                    traffic[pod.labels] = counted
        namespaces = NamespaceReader(table, self._proc, reading)
        found = namespaces.read(visits, last.namespaces if last else {})
        return _Round(context.steady, found, traffic)

    def _process(self, containers: Iterable[LabelledCgroup]) -> int:
        """One of a pod's processes; 0 if there is none."""
        for container in containers:
            pids = pids_of(self._sources.tree, self._sources.layout, container.group)
            if pids:
                return pids[0]
        return 0

    def _owners(
        self, containers: list[LabelledCgroup], is_host: bool
    ) -> Iterator[tuple[int, Labels]]:
        """Containers by the ids of their cgroups."""
        layout = self._sources.layout
        if not is_host and len(containers) == 1:
            yield _SOLE, containers[0].labels
        for container in containers if layout.version == 2 else ():
            with suppress(OSError):
                directory = layout.group_path(container.group, "")
                yield self._sources.tree.identity(directory), container.labels


def _of_containers(last: _Round, now: _Round) -> Iterator[Sample]:
    rtts: dict[Labels, list[int]] = {}
    sent: dict[Labels, int] = {}
    again: dict[Labels, int] = {}
    for inode, namespace in now.namespaces.items():
        before = last.namespaces.get(inode)
        if before is None:
            continue
        for connection, segments, retransmits in _grown(before, namespace):
            owner = namespace.owners.get(connection.cgroup) or namespace.owners.get(_SOLE)
            if owner is not None:
                rtts.setdefault(owner, []).append(connection.rtt)
                sent[owner] = sent.get(owner, 0) + segments
                again[owner] = again.get(owner, 0) + retransmits
    for owner, values in rtts.items():
        yield Sample(Series("container_tcp_rtt", owner), median(values) / 1000)
        if sent[owner] >= _LEAST_SEGMENTS or again[owner] >= _MANY_AGAIN:
            ratio = again[owner] / sent[owner]
            yield Sample(Series("container_tcp_retransmits", owner), ratio)


def _grown(last: Namespace, now: Namespace) -> Iterator[tuple[Connection, int, int]]:
    """The connections that sent data since, with the segments sent, and those sent again.

    One that was not there counts from its start, unless it may have been there, unread.
    """
    for cookie, connection in now.connections.items():
        before = last.connections.get(cookie)
        if before is None and not last.complete:
            continue
        segments = connection.segments - (before.segments if before else 0)
        retransmits = connection.retransmits - (before.retransmits if before else 0)
        if segments > 0:
            yield connection, segments, max(retransmits, 0)


def _of_pods(last: _Round, now: _Round) -> Iterator[Sample]:
    seconds = now.steady - last.steady
    for labels, counted in now.traffic.items():
        grown = counted - last.traffic.get(labels, counted + 1)
        if grown >= 0:
            yield Sample(Series("pod_network_usage", labels), grown / seconds)
