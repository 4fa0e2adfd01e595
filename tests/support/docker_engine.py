"""A double of dockerd: the two questions the proxy itself asks, by dockerd's rules.

The rules, as dockerd 20.10 and 28 follow them:

* The list has what runs only, unless ``all`` is asked for; a filter it does not know is
  refused; several labels must all be there.
* A container is found by its id, by its name, or by the beginning of its id if no other
  begins so.
* A path that is not in its simplest form is redirected from.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import posixpath
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from tests.support.runtime_requests import RuntimeRequest

HEAD = "HTTP/1.1 {} \r\nServer: Docker/28.5.2 (linux)\r\nContent-Type: application/json\r\n"
NAME = re.compile(r"/?[a-zA-Z0-9][a-zA-Z0-9_.-]+")


class RefusedError(Exception):
    """Dockerd would not have done that; ``status`` is what it would have answered."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Container:
    """What dockerd keeps of a container."""

    id: str
    name: str
    body: dict[str, Any]
    state: str = "created"

    @property
    def labels(self) -> dict[str, str]:
        return self.body.get("Labels") or {}

    def listed(self) -> dict[str, Any]:
        return {
            "Id": self.id,
            "Names": [f"/{self.name}"],
            "Image": self.body["Image"],
            "Created": 1795325271,
            "Ports": [],
            "Labels": self.labels,
            "State": self.state,
            "Status": self.state.capitalize(),
            "HostConfig": {"NetworkMode": "host"},
        }

    def inspected(self) -> dict[str, Any]:
        host = self.body.get("HostConfig") or {}
        config = {name: value for name, value in self.body.items() if name != "HostConfig"}
        config["Env"] = [*(config.get("Env") or ()), "PATH=/bin"]
        return {
            "Id": self.id,
            "State": {"Status": self.state, "Running": self.state == "running"},
            "Name": f"/{self.name}",
            "HostConfig": host | {"Runtime": host.get("Runtime") or "runc"},
            "Config": config,
        }


class Engine:
    """Containers, and a socket at which they are reported.

    ``asked`` has what was asked for; ``answer``, once set, is sent instead of a true
    answer, and the connection closed; ``silent`` says nothing at all.
    """

    def __init__(self) -> None:
        self.containers: dict[str, Container] = {}
        self.asked: list[str] = []
        self.answer: bytes | None = None
        self.silent = False

    # ---- what its other clients do

    def create(self, asked: RuntimeRequest) -> str:
        """Make a container, as a request says; its id."""
        [name] = parse_qs(asked.target.partition("?")[2])["name"]
        if not NAME.fullmatch(name):
            raise RefusedError(400, f"Invalid container name ({name})")
        if any(one.name == name for one in self.containers.values()):
            raise RefusedError(409, f'Conflict. The container name "/{name}" is already in use')
        made = hashlib.sha256(f"{name} {len(self.containers)}".encode()).hexdigest()
        self.containers[made] = Container(made, name, json.loads(asked.body))
        return made

    def start(self, id: str) -> None:  # noqa: A002
        self.find(id).state = "running"

    def stop(self, id: str) -> None:  # noqa: A002
        self.find(id).state = "exited"

    def remove(self, id: str) -> None:  # noqa: A002
        del self.containers[self.find(id).id]

    def find(self, reference: str) -> Container:
        if reference in self.containers:
            return self.containers[reference]
        for one in self.containers.values():
            if one.name == reference.removeprefix("/"):
                return one
        found = [one for id, one in self.containers.items() if id.startswith(reference)]  # noqa: A001
        if not found:
            raise RefusedError(404, f"No such container: {reference}")
        if len(found) > 1:
            raise RefusedError(400, f"multiple IDs found with provided prefix: {reference}")
        return found[0]

    # ---- the socket

    @contextlib.asynccontextmanager
    async def serving(self, path: Path) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._converse, str(path))
        async with server:
            yield

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, target, _ = head.partition("\r\n")[0].split(" ")
            assert method == "GET"
            assert "\r\nhost: " in head.lower(), "Go answers nobody who names no host"
            self.asked.append(target)
            if self.silent:
                # Until the other side has lost patience.
                await reader.read()
                return
            writer.write(self._respond(target) if self.answer is None else self.answer)
            await writer.drain()

    def _respond(self, target: str) -> bytes:
        path, _, query = target.partition("?")
        path = unquote(path)
        if posixpath.normpath(path) != path:
            return HEAD.format(301).encode() + b"Content-Length: 0\r\n\r\n"
        try:
            return _framed(200, self._reported(path, parse_qs(query)))
        except RefusedError as refused:
            return _framed(refused.status, {"message": str(refused)})

    def _reported(self, path: str, query: dict[str, list[str]]) -> Any:
        if path == "/containers/json":
            return self._list(query.get("all") == ["1"], query.get("filters", ["{}"])[0])
        one = re.fullmatch("/containers/(.*)/json", path)
        if one is None:
            raise RefusedError(404, "page not found")
        return self.find(one[1]).inspected()

    def _list(self, everything: bool, filters: str) -> list[dict[str, Any]]:
        wanted = json.loads(filters)
        if wanted.keys() - {"label"}:
            raise RefusedError(400, f"invalid filter '{min(wanted.keys() - {'label'})}'")
        labels = [label.partition("=") for label in wanted.get("label", ())]
        return [
            one.listed()
            for one in self.containers.values()
            if (everything or one.state in ("running", "paused"))
            and all(
                name in one.labels and (not equals or one.labels[name] == value)
                for name, equals, value in labels
            )
        ]


def _framed(status: int, value: Any) -> bytes:
    body = json.dumps(value, separators=(",", ":")).encode() + b"\n"
    head = HEAD.format(status).encode()
    if len(body) <= 2048:
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    # As Go does with what is more than its buffer.
    return head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
