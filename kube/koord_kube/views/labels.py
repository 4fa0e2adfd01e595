"""Labels of which equal ones are kept once: pods of one workload have the same. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

_KEPT = 1 << 16
"""Sets of labels; those that have not been seen for longest go first."""


def shared_labels(labels: Mapping[str, str] | None) -> Mapping[str, str]:
    """Equal labels, the same object for the same ones; not to be changed."""
    return _shared(tuple(sorted((labels or {}).items())))


@lru_cache(maxsize=_KEPT)
def _shared(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)
