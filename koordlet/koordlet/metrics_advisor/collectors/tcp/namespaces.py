"""The connections of network namespaces, at the cost of those that did something.

For a dump of one namespace the kernel goes through the connections of the whole machine: 0.3 to 2
ms where its table has 262144 places. So a namespace that sent nothing is not asked; one in which
no connection came or went is asked for those that are known, one by one. The others are dumped,
those that waited longest first, as long as a round has CPU left for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from koord_host.kernel_files.procfs import TCPCounters, tcp_counters
from koord_host.netlink.tcp_diag import Connection

from koordlet.metrics_advisor.contract.cgroup_reading import FileReading
from koordlet.metrics_advisor.contract.collector import ConnectionTable

Labels = tuple[str, ...]

_MOST_OF_NAMESPACE = 2048
_MOST = 16384
"""Connections, which are remembered until the next round: some 6 MB."""
_MOST_ONE_BY_ONE = 64
"""Of a namespace: of more, a dump costs no more."""
_DUMP_SECONDS = 0.04
"""Of CPU, which dumps of a round may take; the last may end later."""


class Namespace(NamedTuple):
    """A network namespace: its connections, whether these are all, and containers by cgroup id.

    ``counters`` were read before the connections; ``None`` where these are known to be others by
    now. ``turn`` counts all readings of namespaces: that with the least was read longest ago.
    """

    connections: Mapping[int, Connection]
    complete: bool
    counters: TCPCounters | None
    turn: int
    owners: Mapping[int, Labels]


class Visit(NamedTuple):
    """Ways into a namespace: one of its processes, and containers by cgroup id."""

    process: int
    group: str
    owners: dict[int, Labels]


class NamespaceReader:
    """One round: ``visits`` and what was read at earlier rounds, by the namespace's inode."""

    def __init__(
        self,
        table: ConnectionTable,
        proc_root: str,
        reading: FileReading,
    ) -> None:
        self._table = table
        self._proc = proc_root
        self._reading = reading
        self._turn = 0

    def read(
        self, visits: Mapping[int, Visit], last: Mapping[int, Namespace]
    ) -> dict[int, Namespace]:
        """Namespaces as they are now; one whose turn has not come, as it was."""
        self._turn = max((namespace.turn for namespace in last.values()), default=0)
        found: dict[int, Namespace] = {}
        waiting: list[tuple[int, TCPCounters | None]] = []
        for where, visit in visits.items():
            path = f"{self._proc}/{visit.process}/net/snmp"
            counters = self._reading.of_group(path, tcp_counters)
            before = last.get(where)
            if before is not None:
                found[where] = before._replace(owners=visit.owners)
            if before is None or not _same_connections(before, counters):
                waiting.append((where, counters))
            elif _has_sent(before, counters):
                with ended(visit.group, self._reading):
                    found[where] = self._again(visit, found.pop(where), counters)
        waiting.sort(key=lambda due: last[due[0]].turn if due[0] in last else 0)
        self._dump(waiting, visits, found)
        return found

    def _again(self, visit: Visit, before: Namespace, counters: TCPCounters | None) -> Namespace:
        known = tuple(before.connections.values())
        there = self._table.read_again(visit.process, known)
        still = counters if len(there) == len(known) else None
        return self._namespace(there, before.complete, still, visit)

    def _dump(
        self,
        waiting: Sequence[tuple[int, TCPCounters | None]],
        visits: Mapping[int, Visit],
        found: dict[int, Namespace],
    ) -> None:
        end = self._table.cpu_time() + _DUMP_SECONDS
        room = _MOST - sum(len(namespace.connections) for namespace in found.values())
        for where, counters in waiting:
            if self._table.cpu_time() >= end:
                return
            visit, before = visits[where], found.pop(where, None)
            room += len(before.connections) if before else 0
            with ended(visit.group, self._reading):
                most = min(room, _MOST_OF_NAMESPACE)
                there, complete = self._table.read(visit.process, most)
                found[where] = self._namespace(there, complete, counters, visit)
                room -= len(there)

    def _namespace(
        self,
        there: Sequence[Connection],
        complete: bool,
        counters: TCPCounters | None,
        visit: Visit,
    ) -> Namespace:
        self._turn += 1
        by_cookie = {connection.cookie: connection for connection in there}
        return Namespace(by_cookie, complete, counters, self._turn, visit.owners)


@contextlib.contextmanager
def ended(group: str, reading: FileReading) -> Iterator[None]:
    """Go on where a process has ended or the kernel does not answer: other pods' are read.

    Raises:
        PermissionError: the kernel refuses, and would for all others.
    """
    try:
        yield
    except PermissionError:
        raise
    except OSError as error:
        if not isinstance(error, FileNotFoundError | ProcessLookupError):
            reading.partial.append(f"connections of {group}: {error}")


def _same_connections(before: Namespace, counters: TCPCounters | None) -> bool:
    """True if none came or went since, and all of them can be asked for."""
    then = before.counters
    if then is None or counters is None:
        return False
    few = before.complete and len(before.connections) <= _MOST_ONE_BY_ONE
    same = (then.opened, then.established) == (counters.opened, counters.established)
    return same and (few or not _has_sent(before, counters))


def _has_sent(before: Namespace, counters: TCPCounters | None) -> bool:
    return before.counters is None or counters is None or before.counters.sent != counters.sent
