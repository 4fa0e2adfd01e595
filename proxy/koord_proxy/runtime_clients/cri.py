"""The few CRI calls the proxy makes itself, to know what the runtime has."""

from __future__ import annotations

from typing import Self, TypeVar

from google.protobuf.message import Message
from koord_cri.client import CriCallError, CriClient
from koord_proto import cri_pb2 as cri

from koord_proxy.contract.runtime_client import (
    RuntimeCallError,
    RuntimeListItem,
    RuntimeNotFoundError,
)
from koord_proxy.cri.adoption import container_record, pod_record
from koord_proxy.rules.records import RuntimeRecord, container_identity, pod_identity

M = TypeVar("M", bound=Message)

TIMEOUT = 10.0
"""Seconds for one call."""

_NOTHING = cri.ListRequest
"""A message without fields: nothing is read in an answer."""
_READY = 0
_LIVE = (0, 1)
"""Container states created and running."""


class CriRuntimeClient:
    """CRI v1, or v1alpha2 where the runtime has no v1. Use with ``async with``."""

    def __init__(self, path: str) -> None:
        self._client = CriClient(path)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def ping(self) -> None:
        await self._call("Version", cri.VersionRequest(), cri.VersionResponse)

    async def pods(self) -> list[RuntimeListItem]:
        answer = await self._call("ListPodSandbox", cri.ListRequest(), cri.ListPodSandboxResponse)
        return [
            RuntimeListItem(
                sandbox.id, _pod_identity(sandbox.metadata), live=sandbox.state == _READY
            )
            for sandbox in answer.items
        ]

    async def containers(self) -> list[RuntimeListItem]:
        answer = await self._call("ListContainers", cri.ListRequest(), cri.ListContainersResponse)
        return [
            RuntimeListItem(
                container.id,
                _container_identity(container),
                container.state in _LIVE,
                container.pod_sandbox_id,
            )
            for container in answer.containers
        ]

    async def pod(self, id: str) -> RuntimeRecord:  # noqa: A002
        request = cri.StatusRequest(id=id, verbose=True)
        return pod_record(
            id, await self._call("PodSandboxStatus", request, cri.PodSandboxStatusResponse)
        )

    async def container(self, id: str) -> RuntimeRecord:  # noqa: A002
        request = cri.StatusRequest(id=id, verbose=True)
        return container_record(
            id, await self._call("ContainerStatus", request, cri.ContainerStatusResponse)
        )

    async def update(self, id: str, message: bytes) -> None:  # noqa: A002
        request = cri.UpdateContainerResourcesRequest.FromString(message)
        await self._call("UpdateContainerResources", request, _NOTHING)

    async def _call(self, method: str, request: Message, response: type[M]) -> M:
        """One call.

        Raises:
            RuntimeCallError: it failed.
        """
        try:
            return await self._client.call(method, request, response, TIMEOUT)
        except CriCallError as error:
            kind = RuntimeNotFoundError if error.not_found else RuntimeCallError
            raise kind(str(error)) from None


def _pod_identity(metadata: cri.PodSandboxMetadata) -> str:
    return pod_identity(metadata.uid, metadata.attempt)


def _container_identity(container: cri.Container) -> str:
    return container_identity(
        container.pod_sandbox_id, container.metadata.name, container.metadata.attempt
    )
