"""What an informer does next, by what came of what it did last. No IO.

As API clients have to: list without a resource version, which is the newest state and
never an older one than before, then watch from the list's version, and move on by the
versions of events and bookmarks. A version is never compared but for being the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

GONE, NOT_FOUND, GATEWAY_TIMEOUT = 410, 404, 504
_SHORT = 1.0  # seconds; a watch that ends sooner with nothing in it is a failure
_STUBBORN = 5  # failures of watches in a row; then what the version says is doubted


class Action(Enum):
    LIST = "list"
    WATCH = "watch"


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next, ``wait`` seconds from now."""

    action: Action
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds: the backoff's first bound, which doubles up to ``cap``; and between lists."""

    first: float = 0.8
    cap: float = 30.0
    relist: float = 12 * 3600.0


class Watching:
    """Follows one list and watch.

    After a failure it waits anything from 0 to a bound that doubles (full jitter), so
    that clients which failed together come back one by one.
    """

    def __init__(self, chance: Callable[[], float], pace: Pace = Pace()) -> None:
        """``chance`` gives numbers from 0 to 1."""
        self._chance = chance
        self._pace = pace
        self._action = Action.LIST
        self._relist_at = 0.0
        self._heard = False
        self.version = ""
        """What to watch from."""
        self.failures = 0
        """In a row; nothing has moved since the first."""

    def listed(self, version: str, now: float) -> Step:
        """A list came; ``now`` in monotonic seconds.

        It ends no row of failures: lists and failed watches would follow each other
        without a pause.
        """
        # Not in step with other nodes that started at the same time.
        self._relist_at = now + self._pace.relist * (0.9 + 0.2 * self._chance())
        self.version = version
        return self._go(Action.WATCH)

    def heard(self, version: str) -> None:
        """An event or a bookmark came."""
        if version and version != self.version:
            self.version = version
            self.failures = 0
            self._heard = True

    def ended(self, lasted: float, now: float) -> Step:
        """The server ended the watch after so many seconds, as it does at its timeout."""
        if lasted < _SHORT and not self._heard:
            return self.failed(0)
        self.failures = 0
        return self._go(Action.LIST if now >= self._relist_at else Action.WATCH)

    def failed(self, status: int, retry_after: float = 0.0) -> Step:
        """It was refused with this HTTP status, or broke off (0)."""
        self.failures += 1
        action = self._action
        if status in (GONE, NOT_FOUND, GATEWAY_TIMEOUT) or self.failures % _STUBBORN == 0:
            action = Action.LIST
        if status == GONE and self.failures == 1:
            return self._go(action)
        return self._go(action, retry_after + self._backoff())

    def _backoff(self) -> float:
        doublings = min(self.failures - 1, 32)
        return self._chance() * min(self._pace.cap, self._pace.first * 2.0**doublings)

    def _go(self, action: Action, wait: float = 0.0) -> Step:
        self._action = action
        self._heard = False
        return Step(action, wait)
