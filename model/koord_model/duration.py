"""Durations as Go and Kubernetes write them ("1h30m", "500ms", "5m0s"), in seconds. No IO."""

from __future__ import annotations

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(ns|us|µs|ms|s|m|h)")
_DURATION = re.compile(rf"(?:{_PART.pattern}){{1,8}}")


def seconds(text: str) -> float:
    """The seconds in a duration.

    Raises:
        ValueError: it is none; negative ones are not taken either.
    """
    if _DURATION.fullmatch(text) is None:
        raise ValueError(
            f'"{text[:40]}" is not a valid duration; expected one like 90s, 5m or 1h30m'
        )
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def seconds_or_number(text: str) -> float:
    """As ``seconds``; a plain number is of seconds too."""
    return seconds(text if text[-1:].isalpha() else f"{text}s")


def written(duration: float) -> str:
    """A duration of a second or more as Go writes it: 300 is "5m0s"."""
    minutes, rest = divmod(round(duration, 9), 60)
    hours, minutes = divmod(int(minutes), 60)
    last = f"{round(rest, 9):g}s"
    if hours:
        return f"{hours}h{minutes}m{last}"
    return f"{minutes}m{last}" if minutes else last
