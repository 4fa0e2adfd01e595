"""Records Events: what a program reports of objects."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import msgspec

from koord_kube.background_writer import BackgroundWriter
from koord_kube.core.events import EventAggregator, EventSource, event
from koord_kube.protocol.api import Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import EVENTS

_ENCODER = msgspec.json.Encoder()


class EventRecorder:
    """Writes what ``source`` reports by ``writer``; repetitions and floods as ``EventAggregator``.

    An Event that cannot be written is lost.
    """

    def __init__(
        self,
        writer: BackgroundWriter,
        source: EventSource,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer = writer
        self._source = source
        self._wall = wall
        self._monotonic = monotonic
        self._aggregator = EventAggregator()

    @property
    def counts(self) -> Counter[str]:
        """Those of the writer, and of Events that were ``repeated`` too soon to be written."""
        return self._writer.counts

    async def run(self) -> None:
        """Write until cancelled."""
        await self._writer.run()

    def record(
        self,
        regarding: Object,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        is_numbered: bool = False,
    ) -> None:
        """Have an Event written soon, unless an equal one was a short time ago.

        ``regarding`` is an object with ``kind`` and ``apiVersion``, or a ``reference``. A message
        that ``is_numbered`` has numbers that always change: it is compared by its reason alone.
        """
        meta = regarding["metadata"]
        about = regarding["kind"], meta.get("namespace", ""), meta["name"], meta.get("uid", "")
        compared = "" if is_numbered else message
        count, is_combined = self._aggregator.add((about, reason), compared, self._monotonic())
        if count:
            message = f"(combined from similar events): {message}" if is_combined else message
            self.write(regarding, reason, message, warning=warning, count=count)
        else:
            self.counts["repeated"] += 1

    def write(
        self,
        regarding: Object,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        count: int = 1,
    ) -> None:
        """Have an Event written soon, of which there can be no other."""
        made = event(
            regarding, reason, message, self._source, self._wall(), warning=warning, count=count
        )
        namespace = made["metadata"]["namespace"]
        self._writer.put(Request("POST", EVENTS, "", namespace, encoded=_ENCODER.encode(made)))
