"""The few CRI calls the proxy makes itself, to know what the runtime has."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import quote

from google.protobuf.message import DecodeError, Message
from koord_proto import cri_pb2 as cri
from koord_service.grpc_core import grpc

from koord_proxy.rules.methods import SERVICES

M = TypeVar("M", bound=Message)

TIMEOUT = 10.0
"""Seconds for one call."""
_UNLIMITED = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class RuntimeCallError(Exception):
    """The runtime did not answer as hoped; the message is one line."""


class RuntimeClient:
    """CRI v1, or v1alpha2 where the runtime has no v1. Use with ``async with``."""

    def __init__(self, path: str) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix:{quote(path)}", options=_UNLIMITED)
        self._service = ""

    async def __aenter__(self) -> RuntimeClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def pods(self) -> list[cri.PodSandbox]:
        """All pod sandboxes."""
        answer = await self._call("ListPodSandbox", cri.ListRequest(), cri.ListPodSandboxResponse)
        return list(answer.items)

    async def containers(self) -> list[cri.Container]:
        """All containers."""
        answer = await self._call("ListContainers", cri.ListRequest(), cri.ListContainersResponse)
        return list(answer.containers)

    async def pod(self, id: str) -> cri.PodSandboxStatusResponse:  # noqa: A002
        """All that is to be known of a pod sandbox."""
        request = cri.StatusRequest(id=id, verbose=True)
        return await self._call("PodSandboxStatus", request, cri.PodSandboxStatusResponse)

    async def container(self, id: str) -> cri.ContainerStatusResponse:  # noqa: A002
        """All that is to be known of a container."""
        request = cri.StatusRequest(id=id, verbose=True)
        return await self._call("ContainerStatus", request, cri.ContainerStatusResponse)

    async def _call(self, method: str, request: Message, response: type[M]) -> M:
        """One call.

        Raises:
            RuntimeCallError: it failed.
        """
        for service in (self._service,) if self._service else SERVICES:
            call: Any = self._channel.unary_unary(
                f"/{service}/{method}",
                request_serializer=lambda message: message.SerializeToString(),
            )
            try:
                answer = response.FromString(await call(request, timeout=TIMEOUT))
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNIMPLEMENTED and not self._service:
                    continue
                raise RuntimeCallError(
                    f"{method}: {error.code().name}: {error.details()}"
                ) from None
            except DecodeError:
                raise RuntimeCallError(f"{method}: the answer cannot be read") from None
            self._service = service
            return answer
        raise RuntimeCallError(f"{method}: the runtime speaks none of {', '.join(SERVICES)}")
