"""Keeps an object of the API server's by server-side apply, without reading it: an exported view.

It is applied when something lasting in it has changed, and at an interval: what changes all the
time (usage) goes with that, and so what somebody has changed or deleted is put right. Metadata and
spec go first, then the status by its subresource.

Where its definition is not installed, one line says so, and it is tried again now and then.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from koord_kube.protocol.api import ApiError, NotFoundError, Object
from koord_kube.protocol.resources import Resource

from koordlet.metrics_reporter.publisher import PublishLoop

REAPPLY_SECONDS = 60.0
"""Koordinator's interval of reports."""
_RANDOM = random.SystemRandom()


class ApplyingApi(Protocol):
    """The part of an API client that ``ObjectApplier`` uses."""

    async def apply(
        self,
        resource: Resource,
        name: str,
        given: Mapping[str, Any],
        manager: str,
        subresource: str = "",
    ) -> Object:
        """Server-side apply; raises ``NotFoundError`` if the kind does not exist."""
        ...


class ObjectApplier(PublishLoop):
    """An object whose fields of ours are applied under the name ``manager``.

    ``build`` returns the fields that are applied as soon as they change, ``None`` while they are
    not known; ``complete`` adds what goes with them, and is called for each write alone. ``judge``
    gets the API server's error, ``None`` if it took the object, and returns True if another one is
    built after that.
    """

    def __init__(
        self,
        api: ApplyingApi,
        resource: Resource,
        name: str,
        build: Callable[[], Object | None],
        complete: Callable[[Object], Object],
        manager: str,
        *,
        judge: Callable[[ApiError | None], bool] | None = None,
        interval: float = 3.0,
        reapply_seconds: float = REAPPLY_SECONDS,
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
        self._complete = complete
        self._manager = manager
        self._judge = judge or (lambda _: False)
        self._reapply_seconds = reapply_seconds
        self._applied: Object | None = None
        self._reapply_at = float("-inf")

    async def reconcile(self) -> None:
        built = self._build()
        if built is None:
            return
        if built == self._applied and self._monotonic() < self._reapply_at:
            self._judge(None)
            return
        try:
            await self._apply(self._complete(built))
        except ApiError as error:
            if self._judge(error):
                return
            raise
        self._judge(None)
        self._applied = built
        self._reapply_at = self._spread(self._reapply_seconds)
        self.state.patched += 1
        self.state.reported_at = self._now()

    def forget(self) -> None:
        self._applied = None

    async def _apply(self, built: Object) -> None:
        identity = {key: built[key] for key in ("apiVersion", "kind")}
        whole = {key: value for key, value in built.items() if key != "status"}
        named = {**identity, "metadata": {"name": self._name}, "status": built["status"]}
        try:
            await self._api.apply(self._resource, self._name, whole, self._manager)
            await self._api.apply(self._resource, self._name, named, self._manager, "status")
        except NotFoundError as error:
            where = f"{self._resource.plural}.{self._resource.group}"
            reason = f"{where}: no such kind, nothing is exported (install its definition)"
            raise ApiError(reason, 404, self._reapply_seconds) from error
