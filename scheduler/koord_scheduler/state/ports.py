"""Ports of nodes that pods have taken. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - what Kubernetes takes a port without an address for


class HostPort(NamedTuple):
    """A port of a node, on one of its addresses or on all of them (``ANY_ADDRESS``)."""

    protocol: str
    port: int
    address: str

    def is_in_conflict(self, other: HostPort) -> bool:
        """True if two pods of a node cannot have them both."""
        same = (self.protocol, self.port) == (other.protocol, other.port)
        return same and (
            self.address == other.address or ANY_ADDRESS in {self.address, other.address}
        )


class HostPortColumns:
    """The ports in use, by protocol and number: few nodes have any particular one in use."""

    def __init__(self) -> None:
        self._addresses: dict[tuple[str, int], dict[int, Counter[str]]] = {}

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """A pod uses ports of a row's node."""
        for protocol, port, address in ports:
            rows = self._addresses.setdefault((protocol, port), {})
            rows.setdefault(row, Counter())[address] += 1

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
        """A pod does not use ports of a row's node any more."""
        for protocol, port, address in ports:
            rows = self._addresses[protocol, port]
            rows[row][address] -= 1
            if not rows[row][address]:
                del rows[row][address]
            if not rows[row]:
                del rows[row]
            if not rows:
                del self._addresses[protocol, port]

    def in_conflict(self, wanted: HostPort) -> dict[int, int]:
        """Count the taken ports that conflict with one, by row; without rows that have none."""
        rows = self._addresses.get((wanted.protocol, wanted.port), {})
        if wanted.address == ANY_ADDRESS:
            return {row: used.total() for row, used in rows.items()}
        both = {row: used[wanted.address] + used[ANY_ADDRESS] for row, used in rows.items()}
        return {row: number for row, number in both.items() if number}
