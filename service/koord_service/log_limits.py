"""Rate limits for warnings that a client can cause as often as it likes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from koord_service.logs import EventLog

SECONDS = 10.0


@dataclass(slots=True)
class _Suppressed:
    """Events since the last line: how many, and the fields of the last one."""

    times: int = 0
    fields: dict[str, object] = field(default_factory=dict)


class LogLimiter:
    """Writes the first event of a message at once, then one line per ``SECONDS`` with the latest.

    The field ``times`` of such a line counts the events that it stands for. Messages must be
    constants: each is kept in memory while it repeats.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._suppressed: dict[str, _Suppressed] = {}

    def warning(self, message: str, /, **fields: object) -> None:
        """Log a warning, or count it; call on the event loop."""
        suppressed = self._suppressed.get(message)
        if suppressed is None:
            self._begin(message)
            self._log.warning(message, **fields)
        else:
            suppressed.times += 1
            suppressed.fields = fields

    def _begin(self, message: str) -> None:
        self._suppressed[message] = _Suppressed()
        asyncio.get_running_loop().call_later(SECONDS, self._end, message)

    def _end(self, message: str) -> None:
        suppressed = self._suppressed.pop(message)
        if suppressed.times:
            self._begin(message)
            self._log.warning(message, **suppressed.fields, times=suppressed.times)
