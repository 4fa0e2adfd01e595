"""Logs: one event, one line, for people or as JSON, on stderr.

Programs say ``log = get_log(__name__)`` and ``log.info("hook answered", pod=name)``.
It is the standard library's logging underneath, so libraries that log come out the
same way. What a line looks like is in ``log_lines``.
"""

from __future__ import annotations

import logging
import os
import sys

from koord_service.log_lines import HumanFormatter, JsonFormatter

_OURS = "pykoord"
"""The parent of all loggers of the project; libraries have others."""

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class EventLog:
    """Writes events under one logger's name; fields that are None are left out."""

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            self._write(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._write(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.WARNING):
            self._write(logging.WARNING, message, fields)

    def error(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.ERROR):
            self._write(logging.ERROR, message, fields)

    def _write(self, level: int, message: str, fields: dict[str, object]) -> None:
        # Not Logger.log: looking up the caller's line costs more than all the rest.
        name = self._logger.name.removeprefix(f"{_OURS}.")
        record = logging.LogRecord(name, level, "", 0, message, None, None)
        record.fields = fields
        self._logger.handle(record)


def get_log(name: str) -> EventLog:
    """The event log of one module or component."""
    return EventLog(logging.getLogger(f"{_OURS}.{name}"))


def configure(format: str, level: str) -> None:  # noqa: A002
    """Send all logging to stderr as "human" or "json", from "debug", "info", "warning" or "error".

    Raises:
        ValueError: another format or level.
    """
    if format not in ("human", "json"):
        raise ValueError(f'log format is "{format}"; expected "human" or "json"')
    if level not in _LEVELS:
        raise ValueError(f'log level is "{level}"; expected {", ".join(_LEVELS)}')
    handler = _Stderr(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else HumanFormatter(_in_journal()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # What libraries say for their own developers would drown our events.
    root.setLevel(max(logging.WARNING, _LEVELS[level]))
    logging.getLogger(_OURS).setLevel(_LEVELS[level])


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Drop the event: without stderr it cannot be written anywhere."""


def _in_journal() -> bool:
    """True if stderr itself is the journal's stream; the variable outlives redirections."""
    try:
        status = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
