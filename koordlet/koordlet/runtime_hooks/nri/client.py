"""A plugin that stays registered: connects, serves, and comes back when either side restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from koord_proto import nri_pb2 as pb
from koord_service.backoff import Backoff
from koord_service.logs import get_log

from koordlet.runtime_hooks.nri.call_server import LateAnswer, NriCounts, one_line
from koordlet.runtime_hooks.nri.connection import (
    ContainerUpdateError,
    NotConnectedError,
    NriConnection,
    NriTimeouts,
)
from koordlet.runtime_hooks.nri.protocol.handler import NriHandler, handled_events
from koordlet.runtime_hooks.nri.protocol.plugin import NriPlugin
from koordlet.runtime_hooks.nri.registration_lock import RegistrationLock

__all__ = [
    "SOCKET",
    "ConnectionEnd",
    "ContainerUpdateError",
    "LateAnswer",
    "NotConnectedError",
    "NriClient",
    "NriCounts",
    "NriTimeouts",
]

SOCKET = "/var/run/nri/nri.sock"

_log = get_log("koordlet.nri")


@dataclass(frozen=True, slots=True)
class ConnectionEnd:
    """End of a connection."""

    reason: str
    served: bool
    """True if it had come as far as synchronisation."""


class NriClient:
    """Keeps one handler registered under one name and index; see ``NriHandler`` for an example.

    An async handler method that has no answer when 80 % of the runtime's patience is
    over is answered for with "no change", as the runtime would break the connection.
    It runs on, and what it wanted is given to ``late``. One that raises is answered
    for too. A connection never ends for what a handler does.

    Raises:
        ValueError: no runtime would register this name or index.
    """

    def __init__(
        self,
        handler: NriHandler,
        *,
        name: str = "koordlet",
        index: str = "10",
        socket: str = SOCKET,
        lock: str | None = None,
        late: Callable[[LateAnswer], object] | None = None,
        backoff: Backoff | None = None,
        poll: float = 1.0,
        patience: NriTimeouts | None = None,
    ) -> None:
        """``lock`` is the file of ``RegistrationLock``, by default beside the socket.

        ``poll`` are the seconds between checks for a socket that is not there, or a
        lock that another process holds.
        """
        self.counts = NriCounts()
        self._handler = handler
        self._name = name
        self._index = index
        self._socket = socket
        self._lock = RegistrationLock(lock or f"{socket}.{index}-{name}.lock")
        self._late = late
        self._backoff = backoff or Backoff()
        self._poll = poll
        self._patience = patience or NriTimeouts()
        self._connection: NriConnection | None = None
        self._warned = ""
        # An invalid name is an error now, not at the first connection.
        self._plugin()

    @property
    def connected(self) -> bool:
        """True if a runtime has synchronized, and asks us."""
        return self._connection is not None and self._connection.synchronized

    @property
    def waits_for(self) -> str:
        """Reason for which there is no connection, as far as it is known."""
        return self._warned or "connecting"

    async def run(self) -> None:
        """Stay registered until cancelled."""
        with self._lock:
            while True:
                delay = await self._attempt()
                await asyncio.sleep(delay)

    async def connect_once(self) -> ConnectionEnd:
        """Connect, register, and serve until the connection ends; takes no lock.

        Raises:
            OSError: nobody listens at the socket.
            RuntimeError: this client is connected already.
        """
        if self._connection is not None:
            raise RuntimeError(f"{self._socket}: already connected")
        before = self.counts.connections
        self._connection = connection = NriConnection(
            self._plugin(), self._handler, self.counts, self._patience, self._late
        )
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket)
            reason = await connection.serve(reader, writer)
        finally:
            self._connection = None
        self._disconnected(reason)
        return ConnectionEnd(reason, served=self.counts.connections > before)

    async def update_containers(
        self, updates: Iterable[pb.ContainerUpdate], *, within: float = 10.0
    ) -> list[pb.ContainerUpdate]:
        """Change containers that run, unasked; return those that the runtime did not change.

        ``within`` are seconds.

        Raises:
            NotConnectedError: there is no runtime, or it went away meanwhile.
            UpdateError: the runtime did not try.
            TimeoutError: no answer came; whether it was done is not known.
            ValueError: too much for one message.
        """
        if self._connection is None:
            raise NotConnectedError(f"{self._socket}: not connected")
        return await self._connection.update_containers(updates, within)

    def _plugin(self) -> NriPlugin:
        return NriPlugin(self._name, self._index, handled_events(self._handler))

    async def _attempt(self) -> float:
        """Try one connection; return after how many seconds to try again."""
        try:
            if not self._lock.acquire():
                self._wait_for(f"{self._lock.path}: held by another plugin of this name and index")
                return self._poll
            ended = await self.connect_once()
        except (FileNotFoundError, ConnectionRefusedError):
            self._wait_for(f"{self._socket}: no runtime listens there")
            return self._poll
        except OSError as error:
            # The lock's file cannot be made, or the socket not be used.
            ended = ConnectionEnd(str(error), served=False)
        if ended.served:
            self._backoff.reset()
        delay = self._backoff.next()
        self._warned = ""
        _log.warning(
            "nri connection ended", socket=self._socket, reason=ended.reason, retry=f"{delay:.1f}s"
        )
        return delay

    def _disconnected(self, reason: str) -> None:
        try:
            self._handler.disconnected(reason)
        except Exception as error:
            _log.error("nri handler failed", call="disconnected", reason=one_line(error))

    def _wait_for(self, reason: str) -> None:
        """Say once what is waited for."""
        if reason != self._warned:
            self._warned = reason
            _log.warning("nri not available yet, waiting", reason=reason)
