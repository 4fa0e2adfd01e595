"""Connections of a server whose connections have a thread each; see ``connection_limit``."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from koord_service.connection_limit import ConnectionLimit

_WAIT_SECONDS = 0.1
"""Time for which a new connection waits for the end of the one that it replaces."""


@dataclass(slots=True)
class _Place:
    # Of our own: the other one is closed by whoever serves it, or becomes part of a TLS socket.
    connection: socket.socket
    ended: bool = False


class ConnectionPlaces:
    """At most ``total`` connections, and ``each`` of a peer if that is bounded; for any thread."""

    def __init__(self, total: int, each: int) -> None:
        self._limit: ConnectionLimit[socket.socket] = ConnectionLimit(total, each)
        self._places: dict[socket.socket, _Place] = {}
        self._changed = threading.Condition()

    def take(self, connection: socket.socket, peer: str, *, bounded: bool) -> bool:
        """Take a place for a connection, to be given back; ``False`` where there is none."""

        def has_room() -> bool:
            return not self._limit.rivals(peer, bounded=bounded)

        with self._changed:
            if rivals := self._limit.rivals(peer, bounded=bounded):
                self._end_oldest([self._places[rival] for rival in rivals])
                if not self._changed.wait_for(has_room, _WAIT_SECONDS):
                    return False
            try:
                own = connection.dup()
            except OSError:
                return False  # out of descriptors
            self._places[connection] = _Place(own)
            self._limit.add(connection, peer)
            return True

    def give_back(self, connection: socket.socket) -> None:
        """The connection has ended, and so has all work for it."""
        with self._changed:
            self._limit.remove(connection)
            self._places.pop(connection).connection.close()
            self._changed.notify_all()

    @staticmethod
    def _end_oldest(rivals: Sequence[_Place]) -> None:
        for place in rivals:
            if not place.ended:
                place.ended = True
                with contextlib.suppress(OSError):  # the client was faster
                    # Wakes the thread that waits for it.
                    place.connection.shutdown(socket.SHUT_RDWR)
                return
