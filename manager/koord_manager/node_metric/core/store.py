"""The NodeMetrics in memory, and the resource versions by which clients follow them. No IO.

A version is the Lease's at the time this manager became leader (its ``term``), shifted, and
from there one more for each change. The shift leaves room for a million changes. A leader
renews the Lease several times a minute or stops, and each renewal moves the Lease's version:
so whoever leads next has a term whose first version is above all that were given out before.

There is no log of changes. Each object knows the version of its last change and the one at
which it came, so what has happened since a version is read off the state: what came or
changed since, and who went. Only those who went have to be remembered, and only so many of
them; a version from before the oldest is too old, and so is one of another term. A client
that is slow gets the newest of each object and none of what was in between.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from koord_model.times import rfc3339

from koord_manager.slo_config.core.colocation import ColocationStrategy

TERM_BITS = 20
"""Of a version belong to the changes within a term."""

_UID_SPACE = uuid.UUID("6f4f0c0e-4c52-5d0b-9c43-0a5a8f3f6c1e")
_REMEMBERED = 512
"""Objects that went."""


class TooOldError(Exception):
    """The changes since that version are not available any more."""


class TooNewError(Exception):
    """That version was not given out yet, or by another manager that leads by now."""


class EventType(StrEnum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """Identity of a node beside its reports; ``created`` as Kubernetes writes times."""

    uid: str
    created: str


@dataclass(frozen=True, slots=True)
class StoredMetric:
    """One node's NodeMetric.

    ``version`` is of its last change, ``came`` of its first one. ``heard`` is when the node
    reported last, in monotonic seconds; ``stale_since`` the same as Kubernetes writes times,
    once the node has been silent for too long, else "". ``status`` is JSON.
    """

    name: str
    uid: str
    created: str
    version: int
    came: int
    heard: float
    status: bytes
    stale_since: str = ""


class MetricEvent(NamedTuple):
    """A change; ``version`` is the object's, or that of its end."""

    type: EventType
    version: int
    kept: StoredMetric


@dataclass(frozen=True, slots=True)
class MetricPage:
    """Some objects by name; ``after`` is the last one's where more follow, else ""."""

    objects: tuple[StoredMetric, ...]
    version: int
    after: str = ""
    remaining: int = 0


class SilentNodes(NamedTuple):
    """Nodes that have become silent, and those that were silent for so long that they went."""

    stale: tuple[str, ...]
    gone: tuple[str, ...]


class NodeMetricStore:
    """NodeMetrics in memory while this manager leads; closed at first.

    A node is stale after ``stale_seconds`` of silence, but not before it has missed a report by
    its ``strategy``, and goes once its metric would be degraded. ``about`` says what is known of
    a node by its name, ``None`` for nothing.
    """

    def __init__(
        self,
        about: Callable[[str], NodeIdentity | None] = lambda _name: None,
        strategy: Callable[[str], ColocationStrategy] = lambda _name: ColocationStrategy(),
        *,
        stale_seconds: float = 180.0,
    ) -> None:
        self._about = about
        self._strategy = strategy
        self._stale_seconds = stale_seconds
        self._objects: OrderedDict[str, StoredMetric] = OrderedDict()  # by version
        self._went: deque[MetricEvent] = deque()
        self.term = 0
        """0 while closed."""
        self.version = 0
        """The newest that was given out."""
        self._floor = 0
        self.stale: set[str] = set()
        """Nodes that have been silent for too long."""

    def __len__(self) -> int:
        return len(self._objects)

    def begin(self, term: int) -> None:
        """Begin a term, with nothing; ``term`` is the Lease's resource version as a number."""
        self.end()
        self.term = term
        # Not 0: a version of 0 asks for any state there is.
        self.version = self._floor = max(1, term << TERM_BITS)

    def end(self) -> None:
        """End the term and forget everything."""
        self._objects.clear()
        self._went.clear()
        self.stale.clear()
        self.term = 0

    def put(self, name: str, status: bytes, now: float, wall: float) -> None:
        """A node has reported; ``now`` is monotonic, ``wall`` seconds since the epoch.

        Nothing is kept while closed.
        """
        if not self.term:
            return
        version = self._next()
        before = self._objects.get(name)
        if before is None:
            about = self._about(name) or NodeIdentity("", rfc3339(wall))
            uid = str(uuid.uuid5(_UID_SPACE, f"{name}/{about.uid}"))
            kept = StoredMetric(name, uid, about.created, version, version, now, status)
        else:
            kept = StoredMetric(name, before.uid, before.created, version, before.came, now, status)
            if before.stale_since:
                self.stale.discard(name)
        self._place(kept)

    def forget(self, name: str) -> bool:
        """Delete a node; return whether it was there."""
        kept = self._objects.pop(name, None)
        if kept is None:
            return False
        self.stale.discard(name)
        self._went.append(MetricEvent(EventType.DELETED, self._next(), kept))
        if len(self._went) > _REMEMBERED:
            self._floor = self._went.popleft().version
        return True

    def age(self, now: float, wall: float) -> SilentNodes:
        """Mark nodes that became silent, and forget those silent for long; times as in ``put``."""
        gone = [
            name for name in self.stale if now - self._objects[name].heard > self._kept_for(name)
        ]
        for name in gone:
            self.forget(name)
        stale = [
            stored
            for stored in self._objects.values()
            if not stored.stale_since
            and now - stored.heard > self._stale_seconds
            and now - stored.heard > self.stale_after(stored.name)
        ]
        for stored in stale:
            since = rfc3339(wall - (now - stored.heard))
            self._place(replace(stored, version=self._next(), stale_since=since))
        names = tuple(stored.name for stored in stale)
        self.stale.update(names)
        return SilentNodes(names, tuple(gone))

    def stale_after(self, name: str) -> float:
        """The seconds of silence after which a node is stale."""
        return max(self._stale_seconds, self._strategy(name).silent_seconds)

    def _kept_for(self, name: str) -> float:
        strategy = self._strategy(name)
        return max(
            strategy.degrade_seconds, self.stale_after(name) + strategy.metric_report_seconds
        )

    def get(self, name: str) -> StoredMetric | None:
        """A node's object."""
        return self._objects.get(name)

    def page(self, limit: int = 0, after: str = "", version: int = 0) -> MetricPage:
        """Objects by name, at most ``limit`` of them (0: all).

        The next page is asked for with the name that this one ended ``after`` and the
        ``version`` of the first one. What came since is left out of it, and is what a watch from
        that version sends; what changed since is shown as it is now, and sent again.

        Raises:
            TooOldError: a watch can no longer start at that version.
            TooNewError: the store has not reached that version.
        """
        version = version or self.version
        self._check(version)
        names = sorted(name for name, stored in self._objects.items() if stored.came <= version)
        first = bisect_right(names, after) if after else 0
        last = min(first + limit, len(names)) if limit else len(names)
        objects = tuple(self._objects[name] for name in names[first:last])
        remaining = len(names) - last
        return MetricPage(objects, version, names[last - 1] if remaining else "", remaining)

    def since(self, version: int) -> list[MetricEvent]:
        """Return the events after a version, in the order of versions.

        Raises:
            TooOldError: the events since then are no longer known.
            TooNewError: that version is none of ours.
        """
        self._check(version)
        if version == self.version:
            return []
        events = [
            MetricEvent(
                EventType.ADDED if stored.came > version else EventType.MODIFIED,
                stored.version,
                stored,
            )
            for stored in self._changed(version)
        ]
        # Who came and went after that version was never seen.
        events += [event for event in self._went if event.kept.came <= version < event.version]
        return sorted(events, key=lambda event: event.version)

    def require_reached(self, version: int) -> None:
        """Raise TooNewError for a version that is not given out yet."""
        if version > self.version:
            raise TooNewError(f"Too large resource version: {version}, current: {self.version}")

    def _changed(self, version: int) -> Iterator[StoredMetric]:
        for kept in reversed(self._objects.values()):
            if kept.version <= version:
                return
            yield kept

    def _check(self, version: int) -> None:
        if version < self._floor:
            raise TooOldError(f"too old resource version: {version} ({self._floor})")
        self.require_reached(version)

    def _place(self, kept: StoredMetric) -> None:
        self._objects[kept.name] = kept
        self._objects.move_to_end(kept.name)

    def _next(self) -> int:
        self.version += 1
        return self.version
