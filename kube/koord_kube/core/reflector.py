"""Next step of an informer after the result of the last one. No IO.

As client-go does: list by a watch that begins with all there is, which the server answers
from its cache with the newest state; where it knows no such watch, by a list of any state
that it has at hand. Then watch on from the list's version, and move on by the versions of
events and bookmarks. A list after the first is never of an older state than what is known;
where the server has not come so far, or has forgotten, it is of the newest one, which costs
it a question to etcd. A version is never compared but for being the same, or as new as another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from koord_service.backoff import exponential

GONE, NOT_FOUND, GATEWAY_TIMEOUT = 410, 404, 504
_NOT_STREAMED = (400, 422, 500, 501)
"""Without the feature a server answers 422; with it, if its etcd lacks what it needs, 500."""

_ANY = "0"  # as a version: whatever the server has at hand
_SHORT = 1.0  # seconds; a watch that ends sooner with nothing in it is a failure
_DOUBTED_AFTER = 5  # failures of watches in a row; then the version is no longer trusted


class ReflectorAction(Enum):
    STREAM = "stream"
    """List by a watch."""
    LIST = "list"
    WATCH = "watch"


@dataclass(frozen=True, slots=True)
class ReflectorStep:
    """Next step of an informer, ``wait`` seconds from now."""

    action: ReflectorAction
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class ReflectorTiming:
    """Seconds: the backoff's first bound, which doubles up to ``cap``; and between lists."""

    first: float = 0.8
    cap: float = 30.0
    relist: float = 12 * 3600.0


class Reflector:
    """Follows one list and watch.

    After a failure it waits anything from 0 to a bound that doubles (full jitter), so
    that clients which failed together come back one by one.
    """

    def __init__(
        self, chance: Callable[[], float], pace: ReflectorTiming = ReflectorTiming()
    ) -> None:
        """``chance`` gives numbers from 0 to 1."""
        self._chance = chance
        self._pace = pace
        self._listing = self._action = ReflectorAction.STREAM
        self._relist_at = 0.0
        self._heard = False
        self._newest = False
        self._wanted = ""
        self.version = ""
        """Version to watch from."""
        self.failures = 0
        """In a row; nothing has moved since the first."""

    @property
    def list_version(self) -> str:
        """Oldest acceptable version of a list; "" is the newest state, "0" any."""
        if self._newest:
            return ""
        known = self._wanted or self.version
        return known or (_ANY if self._listing is ReflectorAction.LIST else "")

    def listed(self, version: str, now: float) -> ReflectorStep:
        """A list came; ``now`` in monotonic seconds.

        It ends no row of failures: lists and failed watches would follow each other
        without a pause.
        """
        # Not in step with other nodes that started at the same time.
        self._relist_at = now + self._pace.relist * (0.9 + 0.2 * self._chance())
        self.version = version
        self._newest, self._wanted = False, ""
        return self._go(ReflectorAction.WATCH)

    def knows(self, version: str) -> bool:
        """True if nothing up to a version is missing; versions of one kind are numbers."""
        return _number(self.version) >= _number(version)

    @property
    def is_watching(self) -> bool:
        return self._action is ReflectorAction.WATCH

    def want(self, version: str) -> ReflectorStep:
        """List a state that is as new as ``version``: the watch does not say so soon enough.

        A server that does not list by a watch may have an etcd that does not tell how far a quiet
        kind's cache is: it would wait for three seconds and refuse. Its newest state is from etcd.
        """
        self._wanted = version
        self._newest = self._listing is ReflectorAction.LIST
        return self._go(self._listing)

    def observed(self, version: str) -> None:
        """An event or a bookmark came."""
        if version and version != self.version:
            self.version = version
            self.failures = 0
            self._heard = True

    def ended(self, lasted: float, now: float) -> ReflectorStep:
        """The server ended the watch after so many seconds, as it does at its timeout."""
        if lasted < _SHORT and not self._heard:
            return self.failed(0)
        self.failures = 0
        if now < self._relist_at:
            return self._go(ReflectorAction.WATCH)
        self._listing = ReflectorAction.STREAM  # by now the server may be another one
        return self._go(self._listing)

    def failed(self, status: int, retry_after: float = 0.0) -> ReflectorStep:
        """It was refused with this HTTP status, or broke off (0)."""
        action = self._action
        if action is ReflectorAction.STREAM and status in _NOT_STREAMED:
            self._listing = ReflectorAction.LIST
            return self._go(ReflectorAction.LIST)
        self.failures += 1
        doubted = self.failures % _DOUBTED_AFTER == 0
        refused = action is not ReflectorAction.WATCH and status in (GONE, GATEWAY_TIMEOUT)
        if refused or (doubted and self.version):
            self._newest = True
        if doubted and action is ReflectorAction.STREAM and status == 0:
            self._listing = ReflectorAction.LIST  # perhaps it ignores the option
        if status in (GONE, NOT_FOUND, GATEWAY_TIMEOUT) or doubted:
            action = self._listing
        if status == GONE and self.failures == 1:
            return self._go(action)
        return self._go(action, retry_after + self._backoff())

    def _backoff(self) -> float:
        return self._chance() * exponential(self._pace.first, self._pace.cap, self.failures)

    def _go(self, action: ReflectorAction, wait: float = 0.0) -> ReflectorStep:
        self._action = action
        self._heard = False
        return ReflectorStep(action, wait)


def _number(version: str) -> int:
    return int(version) if version.isascii() and version.isdigit() else -1
