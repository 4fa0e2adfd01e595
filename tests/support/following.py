"""What the API says of a kind as it happens."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anyio
import msgspec
from koord_kube.client import Client
from koord_kube.protocol.api import ApiError, GoneError
from koord_kube.protocol.resources import Resource

Reported = Callable[[str, bytes, float], None]


class _Meta(msgspec.Struct):
    name: str = ""
    uid: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")


class _Identified(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_IDENTIFIED = msgspec.json.Decoder(_Identified)


async def follow(client: Client, resource: Resource, namespace: str, event: Reported) -> None:
    """All events from now on, without a gap but where the server has forgotten some.

    Of these what came of it is reported: first of those that are gone, then of all others.
    """
    known: dict[str, bytes] = {}
    version = ""
    while True:
        try:
            if not version:
                reported = event if known else _nothing
                known, version = await _caught_up(client, resource, namespace, known, reported)
            async for one in client.watch(resource, version, namespace):
                meta = _IDENTIFIED.decode(one.raw).metadata
                if one.type == "DELETED":
                    known.pop(meta.uid, None)
                elif one.type != "BOOKMARK":
                    known[meta.uid] = bytes(one.raw)
                if one.type != "BOOKMARK":
                    event(one.type, one.raw, time.monotonic())
                version = meta.version or version
        except GoneError:
            version = ""
        except ApiError:
            await anyio.sleep(0.1)


async def _caught_up(
    client: Client, resource: Resource, namespace: str, known: dict[str, bytes], reported: Reported
) -> tuple[dict[str, bytes], str]:
    found, version = await _listed(client, resource, namespace)
    now = time.monotonic()
    for uid in known.keys() - found.keys():
        reported("DELETED", known[uid], now)
    for uid, raw in found.items():
        if raw != known.get(uid):
            reported("MODIFIED", raw, now)
    return found, version


async def _listed(
    client: Client, resource: Resource, namespace: str
) -> tuple[dict[str, bytes], str]:
    found: dict[str, bytes] = {}
    version = ""
    async for page in client.pages(resource, namespace):
        if page.first:
            found.clear()
        found |= {_IDENTIFIED.decode(one).metadata.uid: one for one in page.items}
        version = page.version
    return found, version


def _nothing(*_: Any) -> None:
    """Nobody hears of what there was at first."""
