"""Choice of the connection that has to end if there are too many. No IO.

A client that sends nothing, or a byte now and then, holds a connection as long as it likes, and
so do as many as there is room for. If newcomers were refused then, nobody else would be answered
any more: not Prometheus, and not the kubelet's probes, which would restart the program. So the
newcomer replaces the oldest connection, one of the peer that has most of them: not that of an
API server, which keeps its own for hours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)


class ConnectionLimit(Generic[C]):
    """At most ``total`` connections, and ``each`` of a peer that is bounded."""

    def __init__(self, total: int, each: int) -> None:
        self._total = total
        self._each = each
        # In the order in which they came.
        self._peers: dict[C, str] = {}

    def add(self, connection: C, peer: str) -> None:
        """A connection was accepted."""
        self._peers[connection] = peer

    def remove(self, connection: C) -> None:
        """A connection has ended; one that is not known is ignored."""
        self._peers.pop(connection, None)

    def rivals(self, peer: str, *, bounded: bool) -> Sequence[C]:
        """Those of which one has to end before a peer can have another one, oldest first."""
        held = Counter(self._peers.values())
        if bounded and held[peer] >= self._each:
            return [connection for connection, its in self._peers.items() if its == peer]
        if len(self._peers) < self._total:
            return ()
        most = max(held.values())
        return [connection for connection, its in self._peers.items() if held[its] == most]
