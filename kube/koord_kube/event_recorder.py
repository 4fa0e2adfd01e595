"""Writes Events about objects; a failure is logged and otherwise ignored."""

from __future__ import annotations

import time
from collections.abc import Callable

from koord_kube.core.events import EventAggregator, EventSource, event
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import Api, ApiError, NotLeadingError, Object
from koord_kube.protocol.resources import EVENTS


class EventRecorder:
    """Records what ``component`` reports of objects; the same thing once in five minutes.

    ``instance`` is the name of the component's pod. ``on_warning`` gets a line for people when
    writing begins to fail; an Event that cannot be written is dropped.
    """

    def __init__(
        self,
        api: Api,
        component: str,
        instance: str = "",
        *,
        on_warning: OnWarning = ignore_warning,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._source = EventSource(component, instance)
        self._on_warning = on_warning
        self._wall = wall
        self._clock = clock
        self._aggregator = EventAggregator()
        self._failing = False

    async def record(
        self, regarding: Object, reason: str, message: str, warning: bool = False
    ) -> None:
        """Write an Event, unless an equal one was written a short time ago.

        ``regarding`` is an object with ``kind`` and ``apiVersion``, or a ``reference``.
        A ``message`` should not contain numbers that always change: it would never be equal.
        """
        meta = regarding["metadata"]
        about = regarding["kind"], meta.get("namespace", ""), meta["name"], meta.get("uid", "")
        count = self._aggregator.count((about, reason, message), self._clock())
        if not count:
            return
        given = event(
            regarding,
            reason,
            message,
            self._source,
            self._wall(),
            warning=warning,
            count=count,
        )
        try:
            await self._api.create(EVENTS, given, given["metadata"]["namespace"])
        except NotLeadingError:
            return
        except ApiError as error:
            if not self._failing:
                self._on_warning(f"{error} (Events are not written)")
            self._failing = True
        else:
            self._failing = False
