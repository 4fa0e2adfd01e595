"""Which ports of their nodes pods have taken. No IO."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - what Kubernetes takes a port without an address for


class HostPort(NamedTuple):
    """A port of a node, on one of its addresses or on all of them (``ANY_ADDRESS``)."""

    protocol: str
    port: int
    address: str


class HostPortColumns:
    """The ports in use, by protocol and number: few nodes have any particular one in use."""

    def __init__(self) -> None:
        self._addresses: dict[tuple[str, int], dict[int, Counter[str]]] = defaultdict(dict)

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """A pod uses ports of a row's node."""
        for protocol, port, address in ports:
            rows = self._addresses[protocol, port]
            rows.setdefault(row, Counter())[address] += 1

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
        """A pod does not use ports of a row's node any more."""
        for protocol, port, address in ports:
            addresses = self._addresses[protocol, port][row]
            addresses[address] -= 1
            if not addresses[address]:
                del addresses[address]
                if not addresses:
                    del self._addresses[protocol, port][row]

    def rows_in_conflict(self, wanted: HostPort) -> list[int]:
        """The rows where a port is taken, on the same address or on all addresses."""
        rows = self._addresses.get((wanted.protocol, wanted.port), {})
        if wanted.address == ANY_ADDRESS:
            return list(rows)
        return [row for row, used in rows.items() if wanted.address in used or ANY_ADDRESS in used]
