"""Pages of the leading scheduler or descheduler, asked for while somebody looks."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any

import aiohttp
import anyio
import msgspec
from koord_kube.failures import reason_of
from koord_service.addresses import host_port

_REPLICAS = 8
"""Those that are asked for who of them leads."""
_SECONDS = 2.0
"""For all that is asked in one go."""
_MOST_BYTES = 2 << 20
_OVERVIEW = "/v1/overview"


class NeighbourAnswer(msgspec.Struct):
    """``pages`` of the replica that leads, by path; or the ``reason`` why there are none."""

    reason: str = ""
    pages: dict[str, msgspec.Raw] = {}


class _Overview(msgspec.Struct):
    leads: bool = False


class Neighbour:
    """A program at ``target``, host and port; ``None`` where nobody has said where it is.

    A host of several addresses, as a Service without a cluster IP has, is several replicas.
    ``more`` are pages beside the overview; ``setting`` names that of the address.
    """

    def __init__(
        self, target: tuple[str, int] | None, setting: str, more: Sequence[str] = ()
    ) -> None:
        self._target = target
        self._flag = f"--{setting.replace('_', '-')}"
        self._more = more
        self._lookup: asyncio.Future[list[Any]] | None = None

    async def ask(self) -> NeighbourAnswer:
        """Ask all replicas, and the one that leads for the rest."""
        if self._target is None:
            return NeighbourAnswer(f"{self._flag} is not set")
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._ask(*self._target)
        except (OSError, aiohttp.ClientError, ValueError) as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else reason_of(error)
            return NeighbourAnswer(f"{host_port(*self._target)} ({self._flag}): {reason}")

    async def _ask(self, host: str, port: int) -> NeighbourAnswer:
        addresses = await self._addresses(host, port)
        # Names of hosts may lead to a proxy, redirects anywhere: both are out of the question.
        async with aiohttp.ClientSession(trust_env=False) as session:
            address, overview = await _leader(session, addresses)
            more = {path: await _read(session, address, path) for path in self._more}
        return NeighbourAnswer(pages={_OVERVIEW: overview, **more})

    async def _addresses(self, host: str, port: int) -> list[str]:
        """Look the name up. Of DNS that hangs, one thread at most waits, and all ask that one."""
        if self._lookup is None or self._lookup.done():
            loop = asyncio.get_running_loop()
            look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
            self._lookup = loop.run_in_executor(None, look_up)
            self._lookup.add_done_callback(lambda done: done.cancelled() or done.exception())
        found = await asyncio.shield(self._lookup)
        return list(dict.fromkeys(host_port(*at[:2]) for *_, at in found))[:_REPLICAS]


async def _leader(
    session: aiohttp.ClientSession, addresses: Sequence[str]
) -> tuple[str, msgspec.Raw]:
    """The replica that leads, or else the first that answers, and its overview."""
    answers: dict[str, msgspec.Raw] = {}
    errors: list[Exception] = []

    async def ask(address: str) -> None:
        try:
            with anyio.fail_after(_SECONDS / 2):  # one that is gone must not keep the others
                answers[address] = await _read(session, address, _OVERVIEW)
        except (OSError, aiohttp.ClientError, ValueError) as error:
            errors.append(error)

    async with anyio.create_task_group() as group:
        for address in addresses:
            group.start_soon(ask, address)
    leaders = (at for at, page in answers.items() if _OVERVIEWS.decode(page).leads)
    address = next(leaders, next(iter(answers), ""))
    if not address:
        raise errors[0]
    return address, answers[address]


async def _read(session: aiohttp.ClientSession, address: str, path: str) -> msgspec.Raw:
    """A page that is JSON.

    Raises:
        ValueError: it is another program's, or longer than it can be.
    """
    url = f"http://{address}{path}"
    plain = {"Accept-Encoding": "identity"}
    async with session.get(url, allow_redirects=False, headers=plain) as answer:
        body = bytearray()
        async for piece in answer.content.iter_any():
            body += piece
            if len(body) > _MOST_BYTES:
                raise ValueError(f"{path} is longer than {_MOST_BYTES} bytes")
        if answer.status != 200:
            raise ValueError(f"{path} is answered with {answer.status}: is it another program?")
    _OVERVIEWS.decode(body)
    return msgspec.Raw(bytes(body))


_OVERVIEWS = msgspec.json.Decoder(_Overview)
