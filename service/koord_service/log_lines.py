"""Formatting of an event as one line of text.

Whatever a value holds, the line holds no newline and no control character: such
letters are written as Python writes them. Bytes are shown by their length only,
since they may be somebody's payload.
"""

from __future__ import annotations

import json
import logging
import math
import re
import time
from collections.abc import Mapping

# Five letters, so that messages begin in one column.
_LABELS = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO ",
    logging.WARNING: "WARN ",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "FATAL",
}
# sd-daemon(3): how the journal learns an event's priority.
_JOURNAL_PREFIXES = {
    logging.DEBUG: "<7>",
    logging.INFO: "<6>",
    logging.WARNING: "<4>",
    logging.ERROR: "<3>",
    logging.CRITICAL: "<2>",
}
_RESERVED = frozenset({"ts", "level", "logger", "message"})
_plain_word = re.compile(r"""[^\s"'=\\]+""").fullmatch
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class HumanFormatter(logging.Formatter):
    """``12:01:02.345 INFO  hook answered  pod=ns/name took_ms=0.8``, in local time."""

    def __init__(self, journal: bool = False) -> None:
        super().__init__()
        self._journal = journal
        self._clock = (-1, "")

    def format(self, record: logging.LogRecord) -> str:
        level = min(record.levelno // 10 * 10, logging.CRITICAL)
        head = _JOURNAL_PREFIXES.get(level, "<7>") if self._journal else self._time(record) + " "
        words = [
            f"{name}={_quoted(_text(value))}"
            for name, value in _fields(record).items()
            if value is not None
        ]
        line = f"{head}{_LABELS.get(level, 'DEBUG')} {_message(record)}"
        if words:
            line = f"{line}  {' '.join(words)}"
        return line if line.isprintable() else _escape(line)

    def _time(self, record: logging.LogRecord) -> str:
        second = int(record.created)
        known, text = self._clock
        if second != known:
            text = time.strftime("%H:%M:%S", time.localtime(second))
            self._clock = (second, text)
        return f"{text}.{int(record.msecs):03d}"


class JsonFormatter(logging.Formatter):
    """One object an event: ts (RFC 3339, UTC, ms), level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {
            "ts": f"{_utc(int(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        for name, value in _fields(record).items():
            if value is not None:
                event[f"{name}_" if name in _RESERVED else name] = _jsonable(value)
        return _encode(event).replace("\x7f", "\\u007f")


def _utc(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields: dict[str, object] = record.__dict__.get("fields") or {}
    if record.exc_info:
        return {**fields, "traceback": logging.Formatter().formatException(record.exc_info)}
    return fields


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        # A library whose arguments do not fit its own format.
        return str(record.msg)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, BaseException):
        return str(value) or type(value).__name__
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(round(value, 6))
    if isinstance(value, bytes | bytearray | memoryview):
        return f"bytes[{len(value)}]"
    if isinstance(value, Mapping):
        return ",".join(f"{_text(key)}:{_text(part)}" for key, part in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(_text, value))
    return str(value)


def _jsonable(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {_text(key): _jsonable(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_jsonable(part) for part in value]
    return value if value is None else _text(value)


def _quoted(text: str) -> str:
    if _plain_word(text) and text.isprintable():
        return text
    doubled = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_escape(doubled)}"'


def _escape(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
