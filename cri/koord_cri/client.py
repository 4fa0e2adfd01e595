"""A connection to a container runtime: CRI v1, or v1alpha2 where the runtime has no v1."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import quote

from google.protobuf.message import DecodeError, Message
from koord_service.grpc_core import grpc

from koord_cri.services import SERVICES

M = TypeVar("M", bound=Message)

_OPTIONS = (
    # A runtime's lists have no bound; the kubelet's own limit is raised with them.
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class CriCallError(Exception):
    """A call failed; the message is one line.

    ``status`` is the name of the gRPC status, empty where there is none.
    """

    def __init__(self, message: str, status: str = "") -> None:
        super().__init__(" ".join(message.split()))
        self.status = status

    @property
    def not_found(self) -> bool:
        """The runtime has nothing of that id."""
        return self.status == "NOT_FOUND"

    @property
    def late(self) -> bool:
        """The runtime did not answer in time, and may do it yet."""
        return self.status == "DEADLINE_EXCEEDED"


class CriClient:
    """Calls to the runtime that listens at the unix socket ``path``.

    The connection is made with the first call, within a running event loop.
    """

    def __init__(self, path: str) -> None:
        self._address = f"unix:{quote(path)}"
        self._channel: grpc.aio.Channel | None = None
        self._service = ""

    async def close(self) -> None:
        """Close the connection; a later call makes a new one."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def call(self, method: str, request: Message, response: type[M], seconds: float) -> M:
        """Make a call, such as ``ListContainers``.

        Raises:
            CriCallError: it failed.
        """
        for service in (self._service,) if self._service else SERVICES:
            try:
                answer = await self._unary(f"/{service}/{method}", request, seconds)
            except grpc.aio.AioRpcError as error:
                status = error.code()
                if status is grpc.StatusCode.UNIMPLEMENTED and not self._service:
                    continue
                text = f"{method}: {status.name}: {error.details()}"
                raise CriCallError(text, status.name) from None
            self._service = service
            try:
                return response.FromString(answer)
            except DecodeError:
                raise CriCallError(f"{method}: cannot decode the response") from None
        text = f"{method}: the runtime supports none of {', '.join(SERVICES)}"
        raise CriCallError(text, "UNIMPLEMENTED")

    async def _unary(self, path: str, request: Message, seconds: float) -> bytes:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self._address, options=_OPTIONS)
        call: Any = self._channel.unary_unary(path)
        answer: bytes = await call(request.SerializeToString(), timeout=seconds)
        return answer
