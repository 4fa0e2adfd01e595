"""The few requests the proxy makes of dockerd itself, to know what it has.

They are rare (at start, and for a container that nobody has told of): each is made on a
connection of its own.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode

from koord_proxy.docker.answers import Entry, inspected, listed
from koord_proxy.docker.messages import Copy, MessageError, Response
from koord_proxy.docker.naming import TYPE_LABEL
from koord_proxy.rules.records import Kind, Record
from koord_proxy.runtime import Listed, NotKubernetesError, RuntimeCallError

TIMEOUT = 10.0
"""Seconds that an answer may take."""
MAX_ANSWER = 1 << 26
"""Bytes of an answer: a list of thousands of containers."""
SAID = 300
"""Characters that are told of what cannot be used."""


class DockerRuntime:
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

    async def pods(self) -> list[Listed]:
        return await self._list(Kind.POD)

    async def containers(self) -> list[Listed]:
        return await self._list(Kind.CONTAINER)

    async def pod(self, id: str) -> Record:  # noqa: A002
        return await self._inspect(id, Kind.POD)

    async def container(self, id: str) -> Record:  # noqa: A002
        return await self._inspect(id, Kind.CONTAINER)

    async def _list(self, kind: Kind) -> list[Listed]:
        query = urlencode({"all": "1", "filters": f'{{"label":["{TYPE_LABEL}"]}}'})
        body = await self._get(f"/containers/json?{query}")
        try:
            entries = listed(body)
        except ValueError as error:
            raise RuntimeCallError(str(error)) from None
        return [_entry(one) for one in entries if one.kind is kind]

    async def _inspect(self, id: str, kind: Kind) -> Record:  # noqa: A002
        body = await self._get(f"/containers/{quote(id, safe='')}/json")
        try:
            record = inspected(body)
        except ValueError as error:
            raise RuntimeCallError(f"container {id}: {error}") from None
        if record is None or record.kind is not kind:
            raise NotKubernetesError(f"{id} is no {kind} of Kubernetes'")
        return record

    async def _get(self, target: str) -> bytes:
        """The body of a successful answer.

        Raises:
            RuntimeCallError: there is none.
        """
        try:
            async with asyncio.timeout(TIMEOUT):
                response, body = await _ask(self._path, target)
        except (OSError, MessageError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "no answer"
            raise RuntimeCallError(f"{self._path}: {_one_line(reason)}") from None
        if response.status != HTTPStatus.OK:
            said = _one_line(body.decode(errors="replace"))
            raise RuntimeCallError(f"GET {target.partition('?')[0]}: {response.status} {said}")
        return body


async def _ask(path: str, target: str) -> tuple[Response, bytes]:
    """One request on a connection of its own, and what its answer contains.

    Raises:
        OSError: nobody is there, or no more.
        MessageError: the answer cannot be read.
    """
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        head = f"GET {target} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        response = Response("GET", copy := Copy(MAX_ANSWER))
        while not response.complete:
            data, position = await reader.read(1 << 16), 0
            if not data:
                raise MessageError("the answer was cut short")
            while position < len(data) and not response.complete:
                position = response.take(data, position)
        if response.endless or not copy.whole:
            raise MessageError(f"the answer has no length, or more than {MAX_ANSWER} bytes")
        return response, bytes(copy.content)
    finally:
        writer.close()


def _one_line(text: str) -> str:
    return " ".join(text[:SAID].split())


def _entry(entry: Entry) -> Listed:
    return Listed(entry.id, entry.identity, entry.live, entry.sandbox)
