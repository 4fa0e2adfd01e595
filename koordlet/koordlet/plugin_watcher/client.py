"""Calls of a plugin over gRPC."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar
from urllib.parse import quote

from google.protobuf.message import DecodeError, Message
from koord_model.excerpt import excerpt
from koord_service.backoff import exponential
from koord_service.grpc_core import grpc

MOST_ANSWER = 16 << 20
"""Bytes of an answer, unless the caller says otherwise; the kubelet's bound for its plugins."""
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0
_REASON = 200
"""Letters of a plugin's own words that are reported."""
_UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

M = TypeVar("M", bound=Message)


class PluginCallError(Exception):
    """A call got no usable answer; the message is one line.

    ``unimplemented`` is whether the plugin has no such method, ``paused`` whether it was not
    called, since it did not answer a short time ago.
    """

    def __init__(self, message: str, *, unimplemented: bool = False, paused: bool = False) -> None:
        super().__init__(message)
        self.unimplemented = unimplemented
        self.paused = paused


class PluginClient:
    """Calls to the plugin that listens at the unix socket ``path``, within one event loop.

    A plugin that does not answer in time, or at all, is not called for a while: 5 s, then twice as
    long each time it is still so, up to 5 minutes. To be closed.
    """

    def __init__(
        self,
        path: str,
        *,
        most_bytes: int = MOST_ANSWER,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._failures = 0
        self._again_at = float("-inf")
        options = (
            ("grpc.max_receive_message_length", most_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_reconnect_backoff_ms", 1000),
            # A plugin that has restarted is connected to anew, whatever became of the last one.
            ("grpc.use_local_subchannel_pool", 1),
        )
        self._channel = grpc.aio.insecure_channel(f"unix:{quote(path)}", options=options)

    @property
    def pause(self) -> float:
        """Seconds for which the plugin is not called; 0 if it may be called now."""
        return max(0.0, self._again_at - self._now())

    async def call(self, method: str, request: bytes, answer: type[M], seconds: float) -> M:
        """Call "/package.Service/Method" with a message's bytes.

        Raises:
            PluginCallError: there is no answer that can be used.
        """
        if self.pause > 0:
            raise PluginCallError("not called, since it did not answer lately", paused=True)
        call: Any = self._channel.unary_unary(method)
        name = method.rpartition("/")[2]
        try:
            said: bytes = await call(request, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            raise self._failure(name, error) from None
        return self._decoded(name, said, answer)

    async def stream(self, method: str, request: bytes, answer: type[M]) -> AsyncGenerator[M, None]:
        """Call a method that answers as long as it likes; ends when the plugin ends it.

        Raises:
            PluginCallError: there is no answer, or none any more, that can be used.
        """
        if self.pause > 0:
            raise PluginCallError("not called, since it did not answer lately", paused=True)
        open_stream: Any = self._channel.unary_stream(method)
        call = open_stream(request)
        name = method.rpartition("/")[2]
        try:
            async for said in call:
                yield self._decoded(name, said, answer)
        except grpc.aio.AioRpcError as error:
            raise self._failure(name, error) from None
        finally:
            call.cancel()

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    def _decoded(self, name: str, said: bytes, answer: type[M]) -> M:
        self._failures = 0
        try:
            return answer.FromString(said)
        except DecodeError:
            raise PluginCallError(f"{name}: cannot decode the answer") from None

    def _failure(self, name: str, error: grpc.aio.AioRpcError) -> PluginCallError:
        status = error.code()
        if status in _UNANSWERED:
            self._failed()
        text = f"{name}: {status.name}: {excerpt(error.details() or '', _REASON)}"
        return PluginCallError(text, unimplemented=status is grpc.StatusCode.UNIMPLEMENTED)

    def _failed(self) -> None:
        if self.pause > 0:
            return  # calls at the same time count once
        self._failures += 1
        self._again_at = self._now() + exponential(_FIRST_PAUSE, _LONGEST_PAUSE, self._failures)
