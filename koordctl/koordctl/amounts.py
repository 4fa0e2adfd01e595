"""Amounts to text: cores, bytes, percents, bars and sparklines. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

UNKNOWN = "–"

_BLOCKS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def cores(value: float | None) -> str:
    """Cores to a hundredth; below that to a thousandth."""
    if value is None:
        return UNKNOWN
    return f"{value:.3f}" if 0 < value < 0.1 else f"{value:.2f}"


def memory(value: float | None) -> str:
    """Bytes in the greatest unit that leaves a whole number before the point."""
    if value is None:
        return UNKNOWN
    place = 0
    while abs(value) >= 1024 and place < len(_BYTES) - 1:
        value /= 1024
        place += 1
    return f"{value:.1f} {_BYTES[place]}" if place > 1 else f"{value:.0f} {_BYTES[place]}"


def percent(value: float | None, digits: int = 1) -> str:
    """A percentage."""
    return UNKNOWN if value is None else f"{value:.{digits}f} %"


def share(part: float | None, whole: float | None) -> str:
    """The part in percent of the whole, where both are known."""
    return percent(100 * part / whole, 0) if part is not None and whole else UNKNOWN


def bar(part: float | None, whole: float | None, width: int) -> str:
    """A bar of ``width`` characters, filled to eighths of one."""
    if part is None or not whole:
        return "·" * width
    eighths = round(min(max(part / whole, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width, "░")


def sparkline(points: Sequence[float | None], width: int) -> str:
    """A curve from 0 to its own greatest value; blank where nothing was measured."""
    narrow = _narrowed(points, width)
    most = max((value for value in narrow if value is not None), default=0.0)
    return "".join(" " if value is None else _block(value, most) for value in narrow)


def formatter(unit: str) -> Callable[[float | None], str]:
    """Return the formatter of amounts in a unit of koordlet's metrics."""
    return _FORMATS.get(unit, _plain)


def _narrowed(points: Sequence[float | None], width: int) -> list[float | None]:
    """At most ``width`` points: the means of neighbours."""
    if len(points) <= width:
        return list(points)
    edges = [i * len(points) // width for i in range(width + 1)]
    return [_mean(points[a:b]) for a, b in pairwise(edges)]


def _mean(points: Sequence[float | None]) -> float | None:
    known = [value for value in points if value is not None]
    return sum(known) / len(known) if known else None


def _block(value: float, most: float) -> str:
    if most <= 0:
        return _BLOCKS[0]
    return _BLOCKS[min(max(round(value / most * 7), 0), 7)]


def _plain(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.6g}"


def _ratio(value: float | None) -> str:
    return percent(None if value is None else 100 * value)


def _speed(value: float | None) -> str:
    return UNKNOWN if value is None else f"{memory(value)}/s"


_FORMATS: Mapping[str, Callable[[float | None], str]] = {
    "cores": cores,
    "bytes": memory,
    "bytes/s": _speed,
    "percent": percent,
    "ratio": _ratio,
}
