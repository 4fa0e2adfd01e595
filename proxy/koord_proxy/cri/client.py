"""The few CRI calls the proxy makes itself, to know what the runtime has."""

from __future__ import annotations

from typing import Any, Self, TypeVar
from urllib.parse import quote

from google.protobuf.message import DecodeError, Message
from koord_proto import cri_pb2 as cri
from koord_service.grpc_core import grpc

from koord_proxy.cri.adoption import container_record, pod_record
from koord_proxy.cri.calls import SERVICES
from koord_proxy.rules.records import Record, container_identity, pod_identity
from koord_proxy.runtime import Listed, RuntimeCallError

M = TypeVar("M", bound=Message)

TIMEOUT = 10.0
"""Seconds for one call."""
_UNLIMITED = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


_READY = 0
_LIVE = (0, 1)
"""Container states created and running."""


class CriRuntime:
    """CRI v1, or v1alpha2 where the runtime has no v1. Use with ``async with``."""

    def __init__(self, path: str) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix:{quote(path)}", options=_UNLIMITED)
        self._service = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def pods(self) -> list[Listed]:
        answer = await self._call("ListPodSandbox", cri.ListRequest(), cri.ListPodSandboxResponse)
        return [
            Listed(one.id, _pod_identity(one.metadata), live=one.state == _READY)
            for one in answer.items
        ]

    async def containers(self) -> list[Listed]:
        answer = await self._call("ListContainers", cri.ListRequest(), cri.ListContainersResponse)
        return [
            Listed(one.id, _container_identity(one), one.state in _LIVE, one.pod_sandbox_id)
            for one in answer.containers
        ]

    async def pod(self, id: str) -> Record:  # noqa: A002
        request = cri.StatusRequest(id=id, verbose=True)
        return pod_record(
            id, await self._call("PodSandboxStatus", request, cri.PodSandboxStatusResponse)
        )

    async def container(self, id: str) -> Record:  # noqa: A002
        request = cri.StatusRequest(id=id, verbose=True)
        return container_record(
            id, await self._call("ContainerStatus", request, cri.ContainerStatusResponse)
        )

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


def _pod_identity(metadata: cri.PodSandboxMetadata) -> str:
    return pod_identity(metadata.uid, metadata.attempt)


def _container_identity(one: cri.Container) -> str:
    return container_identity(one.pod_sandbox_id, one.metadata.name, one.metadata.attempt)
