"""Writes Events on pods one by one, without blocking the caller.

What cannot be written after a few tries is dropped and counted: the log has it all the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable

from koord_kube.core.events import EventAggregator
from koord_kube.protocol.api import Api, ApiError, Object
from koord_kube.protocol.resources import EVENTS
from koord_service.backoff import Backoff
from koord_service.logs import get_log

from koordlet.qos_manager.eviction.policy.events import PodEvent, event

_log = get_log("koordlet.evictor")

_MOST_WAITING = 256
_TRIES = 3


class PodEventWriter:
    """Queues Events; ``api`` is ``None`` without a cluster."""

    def __init__(
        self,
        api: Api | None,
        node: str,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._node = node
        self._sleep = sleep
        self._repeated = EventAggregator()
        self._waiting: deque[Object] = deque()
        self._some = asyncio.Event()
        self._problem = ""
        self.counts: Counter[str] = Counter()

    def record(self, one: PodEvent, at: float, steady: float) -> None:
        """Have it written soon, unless the same was said a short time ago.

        ``at`` is seconds since the epoch, ``steady`` those of a steady clock.
        """
        if self._api is None:
            return
        count = self._repeated.count(one.key, steady)
        if not count:
            self.counts["repeated"] += 1
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._waiting.popleft()
            self.counts["dropped"] += 1
        self._waiting.append(event(one, self._node, at, count))
        self._some.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            while self._waiting and self._api is not None:
                await self._write(self._api, self._waiting.popleft())

    async def _write(self, api: Api, given: Object) -> None:
        backoff = Backoff(1.0, 8.0)
        for left in reversed(range(_TRIES)):
            try:
                await api.create(EVENTS, given, given["metadata"]["namespace"])
            except ApiError as error:
                if left and (error.status in (0, 429) or error.status >= 500):
                    await self._sleep(max(backoff.next(), min(error.retry_after, 8.0)))
                    continue
                self._failed(str(error))
            else:
                self.counts["written"] += 1
                self._problem = ""
            return

    def _failed(self, reason: str) -> None:
        self.counts["failed"] += 1
        if not self._problem:
            _log.warning("Events are not written", reason=reason)
        self._problem = reason
