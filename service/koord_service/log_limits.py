"""Rate limits for warnings that clients and servers can cause as often as they like."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Hashable
from typing import NamedTuple

from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import EventLog

SECONDS = 10.0
SECONDS_OF_PROBLEMS = 300.0


_MOST_REPEATED = 64
"""Lines of a limiter whose text is kept until their count is logged."""


class _Repeated(NamedTuple):
    """A line that was repeated, first at ``since``, and not logged then."""

    since: float
    message: str
    fields: dict[str, object]


_LIMITERS: weakref.WeakSet[LogLimiter] = weakref.WeakSet()


class LogLimiter:
    """Writes the first of equal events at once, and later ones once in ``seconds``.

    The field ``times`` counts what a line stands for, if that is more than one. Where none comes
    later, the count is logged with the next event after ``seconds``, or when the program ends. Safe
    to use from any thread.
    """

    def __init__(
        self,
        log: EventLog,
        seconds: float = SECONDS,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._monotonic = monotonic
        self._seconds = seconds
        self._lines = LogDeduplicator(seconds)
        self._repeated: dict[Hashable, _Repeated] = {}
        _LIMITERS.add(self)

    def warning(self, message: str, /, **fields: object) -> None:
        """Log a warning, or count it; equal are those with the same message."""
        self._warn(message, message, fields)

    def problem(self, line: str) -> None:
        """Log what is wrong; equal are lines whose text after the first colon is the same."""
        self._warn(line.partition(": ")[2] or line, "problem", {"what": line})

    def _warn(self, key: Hashable, message: str, fields: dict[str, object]) -> None:
        now = self._monotonic()
        if times := self._lines.count(key, now):
            self._repeated.pop(key, None)
            self._log.warning(message, **fields, times=times if times > 1 else None)
        elif len(self._repeated) < _MOST_REPEATED:
            self._repeated.setdefault(key, _Repeated(now, message, fields))
        self.flush(now - self._seconds)

    def flush(self, before: float = math.inf) -> None:
        """Log the counts of what was repeated first before a time, in monotonic seconds."""
        for key, repeated in list(self._repeated.items()):
            is_due = repeated.since <= before and self._repeated.pop(key, None) is repeated
            if is_due and (times := self._lines.take(key)):
                self._log.warning(repeated.message, **repeated.fields, times=times)


def flush_limiters() -> None:
    """Log all counts that are left: the program ends."""
    for limiter in list(_LIMITERS):
        limiter.flush()
