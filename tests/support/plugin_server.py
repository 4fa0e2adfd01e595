"""A plugin as Katalyst's skeleton makes one: registration and service on one socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio
from google.protobuf.message import Message
from koord_proto.plugin_registration_pb2 import (
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)

Handler = Callable[[bytes], Awaitable[Message]]
Stream = Callable[[], AsyncIterator[Message]]


class PluginServer:
    """Serves on a socket until the end of ``async with``, and then removes it.

    ``methods`` are handlers of a request's bytes, by the name of a method of ``service``,
    ``streams`` those that answer many times.
    While ``hangs``, nothing is answered.
    """

    def __init__(
        self,
        path: Path,
        info: PluginInfo,
        service: str = "none",
        methods: Mapping[str, Handler] | None = None,
        streams: Mapping[str, Stream] | None = None,
    ) -> None:
        self.info = info
        self.hangs = False
        self.notified: list[RegistrationStatus] = []
        self._path = path
        self._server = grpc.aio.server()
        ours = {"GetInfo": self._said, "NotifyRegistrationStatus": self._notified}
        handlers = {name: self._handler(handler) for name, handler in (methods or {}).items()}
        handlers |= {name: _stream_handler(stream) for name, stream in (streams or {}).items()}
        self._add(
            "pluginregistration.Registration",
            {name: self._handler(handler) for name, handler in ours.items()},
        )
        self._add(service, handlers)
        self._server.add_insecure_port(f"unix:{path}")

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._path.unlink(missing_ok=True)
        await self._server.stop(None)

    async def _said(self, _: bytes) -> PluginInfo:
        return self.info

    async def _notified(self, request: bytes) -> RegistrationStatusResponse:
        self.notified.append(RegistrationStatus.FromString(request))
        return RegistrationStatusResponse()

    def _add(self, service: str, handlers: Mapping[str, Any]) -> None:
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, handlers),)
        )

    def _handlers(self, methods: Mapping[str, Handler]) -> dict[str, Any]:
        return {name: self._handler(handler) for name, handler in methods.items()}

    def _handler(self, handler: Handler) -> Any:
        async def answer(request: bytes, _: object) -> bytes:
            while self.hangs:
                await asyncio.sleep(0.01)
            return (await handler(request)).SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer)


def _stream_handler(stream: Stream) -> Any:
    async def answer(_: bytes, __: object) -> AsyncIterator[bytes]:
        async for message in stream():
            yield message.SerializeToString()

    return grpc.unary_stream_rpc_method_handler(answer)
