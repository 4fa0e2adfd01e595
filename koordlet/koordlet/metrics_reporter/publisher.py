"""Keeps objects of the API server as they should be: NodeResourceTopology, Device.

Looking is cheap and done often; what is on the server is asked for at the start, after
each write, and now and then, in case somebody else changed or deleted it. It is written
only where our part of it differs.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from koord_kube.core.retry_schedule import RequestRetry
from koord_kube.protocol.api import Api, ApiError, ConflictError, NotFoundError, Object
from koord_kube.protocol.resources import Resource
from koord_kube.shared_backoff import backoff_of
from koord_service.backoff import Backoff
from koord_service.error_text import describe_error
from koord_service.logs import get_log

_log = get_log("koordlet.publisher")

_REREAD_SECONDS = 300.0
_LONGEST_BACKOFF = 300.0
_RANDOM = random.SystemRandom()

BuildObject = Callable[[Object | None], Object | None]
"""Given the object as it is (``None``: there is none), as it should be; ``None`` while that is
not known."""

BuildPatch = Callable[[Mapping[str, Any], Mapping[str, Any]], Object | None]
"""Given the object as it is and as it should be, the merge patch; ``None`` for no change."""


@dataclass(slots=True)
class PublisherState:
    """The state of publishing an object; ``problem`` is "" without an error.

    ``reported_at`` is when the object was last as it should be, seconds since the epoch, 0
    for never.
    """

    created: int = 0
    patched: int = 0
    failures: int = 0
    reported_at: float = 0.0
    problem: str = ""


class PublishLoop:
    """One object, looked after until cancelled; ``reconcile`` is what is done at each look.

    ``interval`` is the seconds between two looks (node-topology-sync-interval).
    """

    def __init__(
        self,
        api: object,
        resource: Resource,
        name: str,
        *,
        interval: float,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        chance: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        self.kind = resource.kind
        self._resource = resource
        self._name = name
        self._interval = interval
        self._now = now
        self._monotonic = monotonic
        self._chance = chance
        self._sleep = sleep
        self._backoff = Backoff(interval, _LONGEST_BACKOFF, chance=chance)
        self._shared, self._retry = backoff_of(api), RequestRetry()
        self._outage: ApiError | None = None
        self.state = PublisherState()

    async def reconcile(self) -> None:
        """Look once, and write what differs.

        Raises:
            ApiError: it failed.
        """
        raise NotImplementedError

    def forget(self) -> None:
        """Know nothing of the object any more: a write of it has failed."""
        raise NotImplementedError

    async def run(self) -> None:
        """Look at the interval."""
        while True:
            before = self._outage
            wait = await self.round()
            if self._outage is None:
                await self._sleep(wait)
                continue
            if before is None:
                self._retry = RequestRetry()
            await self._shared.pause(self._retry, wait, self._outage)

    async def round(self) -> float:
        """Look once; the seconds until the next time."""
        self._outage = None
        try:
            await self.reconcile()
        except ApiError as error:
            self._outage = error if error.is_outage else None
            return self._failed(error)
        except Exception as error:
            # A defect of ours in what is to be published: other objects are, and this one later.
            return self._failed(ApiError(describe_error(error)))
        self._note_problem("")
        self._backoff.reset()
        return self._interval

    def _spread(self, seconds: float) -> float:
        """A time in the later half of the next so many seconds, by ``monotonic``.

        Nodes that were started together do not stay together.
        """
        return self._monotonic() + seconds * (0.5 + self._chance() / 2)

    def _failed(self, error: ApiError) -> float:
        self.forget()
        if isinstance(error, ConflictError):
            # Somebody was faster; it is read anew and changed then.
            return self._interval
        self.state.failures += 1
        self._note_problem(str(error))
        return max(self._backoff.next(), error.retry_after)

    def _note_problem(self, reason: str) -> None:
        """Log an error once, and its end once."""
        if reason and not self.state.problem:
            _log.warning("cannot publish", kind=self.kind, reason=reason)
        elif not reason and self.state.problem:
            _log.info("publishing again", kind=self.kind)
        self.state.problem = reason


class ObjectPublisher(PublishLoop):
    """An object that is read, and patched where it differs."""

    def __init__(
        self,
        api: Api,
        resource: Resource,
        name: str,
        build: BuildObject,
        change: BuildPatch,
        *,
        interval: float = 3.0,
        reread_seconds: float = _REREAD_SECONDS,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = _RANDOM.random,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        super().__init__(
            *(api, resource, name),
            interval=interval,
            now=now,
            monotonic=monotonic,
            chance=chance,
            sleep=sleep,
        )
        self._api = api
        self._build = build
        self._change = change
        self._reread_seconds = reread_seconds
        self._there: Object | None = None
        self._reread_at = float("-inf")

    async def reconcile(self) -> None:
        there = await self._current()
        wanted = self._build(there)
        if wanted is None:
            return
        if there is None:
            self._there = await self._api.create(self._resource, wanted)
            self.state.created += 1
        else:
            await self._put_right(there, wanted)
        self.state.reported_at = self._now()

    async def _put_right(self, there: Object, wanted: Object) -> None:
        change = self._change(there, wanted)
        if change is None:
            return
        # With its version, so that no concurrent change is lost.
        version = {"resourceVersion": there["metadata"]["resourceVersion"]}
        change["metadata"] = version | change.get("metadata", {})
        self._there = await self._api.patch(self._resource, self._name, change)
        self.state.patched += 1

    async def _current(self) -> Object | None:
        # That there is none is remembered too: while nothing is to be written, no node may
        # ask for it at each look.
        if self._monotonic() >= self._reread_at:
            try:
                self._there = await self._api.get(self._resource, self._name)
            except NotFoundError:
                self._there = None
            self._reread_at = self._spread(self._reread_seconds)
        return self._there

    def forget(self) -> None:
        self._there, self._reread_at = None, float("-inf")
