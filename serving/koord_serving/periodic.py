"""A duty that is done again and again: at once when what it is about changes, else by the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import msgspec
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api, ApiError
from koord_kube.protocol.resources import Resource
from koord_service.backoff import Backoff
from koord_service.logs import EventLog


class _Meta(msgspec.Struct, frozen=True):
    version: str = msgspec.field(default="", name="resourceVersion")


class _Versioned(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


_VERSIONED = msgspec.json.Decoder(_Versioned)


async def run_periodically(
    once: Callable[[], Awaitable[float]],
    wake: asyncio.Event,
    log: EventLog,
    informers: Iterable[Informer[str]] = (),
) -> None:
    """Run ``once`` for ever; it returns in how many seconds to run again.

    It runs earlier if ``wake`` is set, as ``watch_object`` informers do; after an ``ApiError`` with
    a growing pause.
    """
    async with asyncio.TaskGroup() as group:
        for one in informers:
            group.create_task(one.run())
        await _for_ever(once, wake, log)


async def _for_ever(
    once: Callable[[], Awaitable[float]], wake: asyncio.Event, log: EventLog
) -> None:
    backoff = Backoff(0.5, 30.0)
    logged = ""
    while True:
        # Before the round: what changes during it is seen by the next.
        wake.clear()
        try:
            pause = await once()
        except ApiError as error:
            pause = backoff.next()
            if str(error) != logged:
                logged = str(error)
                log.warning("update failed, retrying", error=logged)
            await asyncio.sleep(pause)
            continue
        backoff.reset()
        logged = ""
        try:
            async with asyncio.timeout(pause):
                await wake.wait()
        except TimeoutError:
            pass  # its time has come


def watch_object(
    api: Api, resource: Resource, name: str, namespace: str, wake: asyncio.Event, log: EventLog
) -> Informer[str]:
    """Sets ``wake`` when an object changes; keeps its version alone: the rest may be secret."""
    return Informer(
        api,
        resource,
        name=name,
        namespace=namespace,
        decode=lambda raw: _VERSIONED.decode(raw).metadata.version,
        on_change=lambda _key, _before, _after: wake.set(),
        on_warning=lambda line: log.warning("watch failed, checking every minute", reason=line),
    )
