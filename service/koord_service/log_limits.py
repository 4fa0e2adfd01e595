"""Rate limits for warnings that clients and servers can cause as often as they like."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import EventLog

SECONDS = 10.0
SECONDS_OF_PROBLEMS = 300.0


class LogLimiter:
    """Writes the first of equal events at once, and later ones once in ``seconds``.

    The field ``times`` counts what a line stands for, if that is more than one. Safe to use from
    any thread.
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
        self._lines = LogDeduplicator(seconds)

    def warning(self, message: str, /, **fields: object) -> None:
        """Log a warning, or count it; equal are those with the same message."""
        self._warn(message, message, fields)

    def problem(self, line: str) -> None:
        """Log what is wrong; equal are lines whose text after the first colon is the same."""
        self._warn(line.partition(": ")[2] or line, "problem", {"what": line})

    def _warn(self, key: Hashable, message: str, fields: dict[str, object]) -> None:
        if times := self._lines.count(key, self._monotonic()):
            self._log.warning(message, **fields, times=times if times > 1 else None)
