"""Numbers of pods of a workload that may move or be away, as Koordinator computes them. No IO."""

from __future__ import annotations


def percent_of(limit: int | str | None) -> int | None:
    """The per cent that a limit is written as; ``None`` if it is not."""
    return int(limit.removesuffix("%")) if isinstance(limit, str) and limit[:-1].isdigit() else None


def limit_of(replicas: int, limit: int | str | None) -> int:
    """The limit for a workload: parts are rounded down, at least 1, at most ``replicas``.

    Where none is set: a tenth of more than 10, 2 of 4 to 10, else 1.
    """
    if limit is None:
        found = replicas // 10 if replicas > 10 else 2 if replicas >= 4 else 1
    else:
        percent = percent_of(limit)
        found = max(1, int(limit) if percent is None else replicas * percent // 100)
    return min(found, replicas)
