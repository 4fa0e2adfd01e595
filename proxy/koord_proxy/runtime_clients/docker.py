"""The few requests the proxy makes of dockerd itself, to know what it has.

They are rare (at start, and for a container that is unknown): each is made on a
connection of its own.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from types import TracebackType
from typing import Self

from koord_service.http_targets import path_segment, with_query

from koord_proxy.contract.runtime_client import (
    NotKubernetesError,
    RuntimeCallError,
    RuntimeListItem,
    RuntimeNotFoundError,
)
from koord_proxy.docker.engine_responses import ContainerListEntry, inspected, listed
from koord_proxy.docker.http_messages import BodyCopy, EngineResponse, HttpMessageError
from koord_proxy.docker.naming import TYPE_LABEL
from koord_proxy.rules.records import RecordKind, RuntimeRecord

TIMEOUT = 10.0
"""Seconds that an answer may take."""
MAX_ANSWER = 1 << 26
"""Bytes of an answer: a list of thousands of containers."""
SAID = 300
"""Characters that are logged of an answer that cannot be used."""


class DockerRuntimeClient:
    """dockerd behind its socket. Use with ``async with``."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is kept open between requests."""

    async def ping(self) -> None:
        await self._ask("GET", "/_ping")

    async def pods(self) -> list[RuntimeListItem]:
        return await self._list(RecordKind.POD)

    async def containers(self) -> list[RuntimeListItem]:
        return await self._list(RecordKind.CONTAINER)

    async def pod(self, id: str) -> RuntimeRecord:  # noqa: A002
        return await self._inspect(id, RecordKind.POD)

    async def container(self, id: str) -> RuntimeRecord:  # noqa: A002
        return await self._inspect(id, RecordKind.CONTAINER)

    async def update(self, id: str, message: bytes) -> None:  # noqa: A002
        await self._ask("POST", _container_path(id, "update"), message)

    async def _list(self, kind: RecordKind) -> list[RuntimeListItem]:
        query = {"all": "1", "filters": f'{{"label":["{TYPE_LABEL}"]}}'}
        body = await self._ask("GET", with_query("/containers/json", query))
        try:
            entries = listed(body)
        except ValueError as error:
            raise RuntimeCallError(str(error)) from None
        return [_entry(entry) for entry in entries if entry.kind is kind]

    async def _inspect(self, id: str, kind: RecordKind) -> RuntimeRecord:  # noqa: A002
        body = await self._ask("GET", _container_path(id, "json"))
        try:
            record = inspected(body)
        except ValueError as error:
            raise RuntimeCallError(f"container {id}: {error}") from None
        if record is None or record.kind is not kind:
            raise NotKubernetesError(f"{id} is not a {kind} of Kubernetes")
        return record

    async def _ask(self, method: str, target: str, content: bytes = b"") -> bytes:
        """The body of a successful answer.

        Raises:
            RuntimeCallError: dockerd did not answer, or with an error.
        """
        try:
            async with asyncio.timeout(TIMEOUT):
                response, body = await _ask(self._path, method, target, content)
        except (OSError, HttpMessageError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "no answer"
            raise RuntimeCallError(f"{self._path}: {_one_line(reason)}") from None
        if response.status != HTTPStatus.OK:
            said = _one_line(body.decode(errors="replace"))
            kind = (
                RuntimeNotFoundError
                if response.status == HTTPStatus.NOT_FOUND
                else RuntimeCallError
            )
            raise kind(f"{method} {target.partition('?')[0]}: {response.status} {said}")
        return body


def _container_path(id: str, action: str) -> str:  # noqa: A002
    try:
        return f"/containers/{path_segment('container', id)}/{action}"
    except ValueError as error:
        raise RuntimeCallError(str(error)) from None


async def _ask(path: str, method: str, target: str, content: bytes) -> tuple[EngineResponse, bytes]:
    """One request on a connection of its own, and what its answer contains.

    Raises:
        OSError: nobody is there, or no more.
        HttpMessageError: the answer cannot be parsed.
    """
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        head = f"{method} {target} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n"
        if content:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        writer.write(f"{head}\r\n".encode() + content)
        response = EngineResponse(method, copy := BodyCopy(MAX_ANSWER))
        while not response.complete:
            data, position = await reader.read(1 << 16), 0
            if not data:
                raise HttpMessageError("the answer was cut short")
            while position < len(data) and not response.complete:
                position = response.take(data, position)
        if response.endless or not copy.whole:
            raise HttpMessageError(f"the answer has no length, or more than {MAX_ANSWER} bytes")
        return response, bytes(copy.content)
    finally:
        writer.close()


def _one_line(text: str) -> str:
    return " ".join(text[:SAID].split())


def _entry(entry: ContainerListEntry) -> RuntimeListItem:
    return RuntimeListItem(entry.id, entry.identity, entry.live, entry.sandbox)
