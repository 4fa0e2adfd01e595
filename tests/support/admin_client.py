"""An administrator's plain HTTP client, of the double or of a real API server.

It deletes what it has created, so that one server serves many tests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import DEFINITIONS, Resource

from tests.support.kube_api.kinds import api_version
from tests.support.processes import PATIENCE

JSON = "application/json"
MERGE = "application/merge-patch+json"


@dataclass(frozen=True)
class Answer:
    """``said`` is the answer's JSON, or its text."""

    status: int
    said: Any
    headers: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def refusal(self) -> tuple[int, str]:
        """The status, and the word that says why."""
        return self.status, self.said.get("reason", "") if isinstance(self.said, dict) else ""

    @property
    def causes(self) -> list[str]:
        """Which fields are wrong."""
        return [one.get("field", "") for one in self.said["details"].get("causes", [])]


class Events:
    """An open watch."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def next(self) -> tuple[str, Any]:
        """Type and object of the next event."""
        async with asyncio.timeout(PATIENCE):
            found = json.loads(await self._answer.content.readline())
        return found["type"], found["object"]

    async def end(self) -> None:
        """Until the server ends it; nothing but bookmarks may come any more."""
        async with asyncio.timeout(PATIENCE):
            while line := await self._answer.content.readline():
                assert json.loads(line)["type"] == "BOOKMARK"


class AdminClient:
    """``session`` has what it takes to be let in as an administrator."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url, self.session = url, session
        self._made: dict[str, None] = {}

    async def __call__(
        self, method: str, path: str, body: Any = None, kind: str = "", **query: str
    ) -> Answer:
        """``kind`` is the content type where it is not the usual one."""
        headers = {"Content-Type": kind or (MERGE if method == "PATCH" else JSON)}
        if "authorization" in query:
            headers["Authorization"] = query.pop("authorization")
        data = None if body is None else json.dumps(body)
        async with self.session.request(
            method, self.url + path, data=data, params=query, headers=headers
        ) as got:
            text = await got.text()
        answer = Answer(got.status, _decoded(text), dict(got.headers))
        if method == "POST" and got.status == 201 and "dryRun" not in query:
            self._made.update(dict.fromkeys(_path_of(path, answer.said)))
        return answer

    async def put(self, resource: Resource, given: Object, namespace: str = "") -> Object:
        """Create an object with its status, or replace it; returns what is kept."""
        name = given["metadata"]["name"]
        path = resource.path(name, namespace)
        head = {"apiVersion": api_version(resource), "kind": resource.kind}
        given = {**head, **given}
        there = await self("GET", path)
        if there.status == 404:
            made = await self("POST", resource.path("", namespace), given)
        else:
            version = there.said["metadata"]["resourceVersion"]
            meta = {**given["metadata"], "resourceVersion": version}
            made = await self("PUT", path, {**given, "metadata": meta})
        kept = _good(made)
        if "status" not in given:
            return kept
        whole = {**kept, "status": given["status"]}
        return _good(await self("PUT", f"{path}/status", whole))

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return _good(await self("GET", resource.path(name, namespace)))

    async def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        _good(await self("DELETE", resource.path(name, namespace)))

    async def define(self, definition: Object) -> None:
        """A custom kind, once it is served."""
        answer = await self("POST", DEFINITIONS.path(), definition)
        assert answer.status in (201, 409), answer
        spec = definition["spec"]
        versions = [one["name"] for one in spec["versions"] if one["served"]]
        async with asyncio.timeout(PATIENCE):
            for version in versions:
                path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
                while (await self("GET", path)).status != 200:
                    await asyncio.sleep(0.05)

    @asynccontextmanager
    async def watching(self, path: str, **query: str) -> AsyncIterator[Events]:
        async with self.session.get(self.url + path, params={"watch": "1", **query}) as got:
            assert got.status == 200, await got.text()
            yield Events(got)

    async def clean(self) -> None:
        """Away with all that was made, however it is held; definitions stay."""
        for path in reversed([*self._made]):
            if "customresourcedefinitions" in path:
                continue
            await self("PATCH", path, {"metadata": {"finalizers": None}})
            options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
            await self("DELETE", path, options)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _path_of(path: str, made: Any) -> Iterator[str]:
    """Where what was made is; reviews and evictions are nowhere."""
    name = (made.get("metadata") or {}).get("name")
    if name and made.get("kind") not in ("Status", "Eviction"):
        yield f"{path}/{name}"


def _good(answer: Answer) -> Object:
    assert answer.status < 300, answer
    found: Object = answer.said
    return found
