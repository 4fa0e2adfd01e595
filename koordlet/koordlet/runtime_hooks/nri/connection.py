"""One NRI connection over a socket, until it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from google.protobuf.message import Message
from koord_proto import nri_pb2 as pb
from koord_service.logs import get_log

from koordlet.runtime_hooks.nri.call_server import CallServer, LateAnswer, NriCounts, one_line
from koordlet.runtime_hooks.nri.protocol.events import (
    ConfigureRequest,
    Event,
    IncomingCall,
    RegistrationRejection,
    RegistrationResponse,
    RuntimeInfo,
    ShutdownRequest,
    UpdateResponse,
)
from koordlet.runtime_hooks.nri.protocol.handler import NriHandler
from koordlet.runtime_hooks.nri.protocol.plugin import NriPlugin, NriPluginState
from koordlet.runtime_hooks.nri.protocol.ttrpc import TtrpcError

_log = get_log("koordlet.nri")

_READ = 256 * 1024
_REQUEST_TIMEOUT = 2.0
"""Seconds that runtimes wait for an answer unless they say otherwise."""


class NotConnectedError(ConnectionError):
    """No runtime is connected."""


class ContainerUpdateError(RuntimeError):
    """The runtime would not do any of an update; the message is its reason."""


@dataclass(frozen=True, slots=True)
class NriTimeouts:
    """Time limits."""

    answer_share: float = 0.8
    """The part of the runtime's patience after which a call is answered "no change"."""
    registration: float = 20.0
    """Seconds from connecting to being configured. A runtime takes its plugins one after
    another and gives each 5 s, so this is more."""


class NriConnection:
    """Serves one socket; made anew for the next."""

    def __init__(
        self,
        plugin: NriPlugin,
        handler: NriHandler,
        counts: NriCounts,
        patience: NriTimeouts,
        late: Callable[[LateAnswer], object] | None,
    ) -> None:
        self._plugin = plugin
        self._handler = handler
        self._counts = counts
        self._patience = patience
        self._answering = CallServer(handler, counts, self._answer, self._refuse, late)
        self._request_timeout = _REQUEST_TIMEOUT
        self._writer: asyncio.StreamWriter | None = None
        self._updates: dict[int, asyncio.Future[tuple[pb.ContainerUpdate, ...]]] = {}
        self._ending = "closed by the runtime"

    @property
    def synchronized(self) -> bool:
        """True if the runtime asks us, and may be asked."""
        return self._plugin.state is NriPluginState.SYNCHRONIZED

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        """Register and answer until the connection ends; return why it did, in a line.

        Calls under way are then cancelled: their pods come again with the next
        synchronisation.
        """
        self._writer = writer
        try:
            async with asyncio.TaskGroup() as tasks:
                self._plugin.register()
                self._send()
                try:
                    await self._read(reader, tasks)
                finally:
                    self._answering.end()
        finally:
            self._plugin.state = NriPluginState.OVER
            writer.transport.abort()
            for update in self._updates.values():
                if not update.done():
                    update.set_exception(NotConnectedError("the connection was lost"))
        return self._ending

    async def update_containers(
        self, updates: Iterable[pb.ContainerUpdate], within: float
    ) -> list[pb.ContainerUpdate]:
        """See ``Client.update_containers``."""
        if not self.synchronized:
            raise NotConnectedError("the runtime has not synchronized yet")
        call = self._plugin.update_containers(updates, within)
        self._counts.updates += 1
        ended = self._updates[call] = asyncio.get_running_loop().create_future()
        self._send()
        try:
            async with asyncio.timeout(within):
                failed = await ended
        except ContainerUpdateError:
            self._counts.updates_failed += 1
            raise
        finally:
            del self._updates[call]
        self._counts.updates_failed += len(failed)
        return list(failed)

    async def _read(self, reader: asyncio.StreamReader, tasks: asyncio.TaskGroup) -> None:
        try:
            async with asyncio.timeout(self._patience.registration) as registration:
                while data := await reader.read(_READ):
                    for event in self._plugin.receive(data):
                        if isinstance(event, ConfigureRequest):
                            registration.reschedule(None)
                        self._handle(event, tasks)
                    self._send()
                    if self._plugin.failed is not None:
                        raise self._plugin.failed
        except TimeoutError:
            self._ending = f"not configured within {self._patience.registration:g} s"
        except (TtrpcError, OSError) as error:
            self._ending = one_line(error)

    def _handle(self, event: Event, tasks: asyncio.TaskGroup) -> None:
        match event:
            case IncomingCall():
                self._answering.ask(event, self._deadline(event), tasks)
            case UpdateResponse():
                self._updated(event)
            case ConfigureRequest(runtime):
                self._request_timeout = runtime.request_timeout or _REQUEST_TIMEOUT
                self._introduce(runtime)
            case RegistrationRejection(reason):
                self._ending = f"registration refused: {reason}"
            case ShutdownRequest():
                self._ending = "the runtime shut down"
            case RegistrationResponse():
                # Configured says more, and may have come before.
                pass

    def _deadline(self, call: IncomingCall) -> float:
        timeout = self._request_timeout if call.timeout is None else call.timeout
        return max(0.0, min(timeout, self._request_timeout)) * self._patience.answer_share

    def _introduce(self, runtime: RuntimeInfo) -> None:
        _log.info(
            "nri connected",
            runtime=runtime.name,
            version=runtime.version,
            timeout=f"{self._request_timeout:g}s",
        )
        try:
            self._handler.connected(runtime)
        except Exception as error:
            _log.error("nri handler failed", call="connected", reason=one_line(error))

    def _answer(self, call: IncomingCall, response: Message | None) -> None:
        self._plugin.answer(call.id, response)
        if call.method.name == "Synchronize":
            self._counts.connections += 1
        self._send()

    def _refuse(self, call: IncomingCall, reason: str) -> None:
        self._plugin.refuse(call.id, reason)
        self._send()

    def _updated(self, event: UpdateResponse) -> None:
        # The caller may have stopped waiting.
        ended = self._updates.get(event.id)
        if ended is None or ended.done():
            return
        if event.error:
            ended.set_exception(ContainerUpdateError(event.error))
        else:
            ended.set_result(event.failed)

    def _send(self) -> None:
        # Nothing waits here for the other side to read: what is not sent is bounded
        # by the calls that it waits for.
        data = b"".join(self._plugin.out)
        self._plugin.out.clear()
        if data and self._writer is not None and not self._writer.is_closing():
            self._writer.write(data)
