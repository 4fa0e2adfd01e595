"""Bounds of NodeMetric's policy, for its writer and its readers. No IO."""

from __future__ import annotations

from enum import StrEnum

MOST_SECONDS = 12 * 3600
"""Period kept by the node's metric cache; older points cannot be aggregated."""


class MemoryPolicy(StrEnum):
    """Memory that counts as used."""

    WITHOUT_PAGE_CACHE = "usageWithoutPageCache"
    WITH_PAGE_CACHE = "usageWithPageCache"
    WITH_HOT_PAGE_CACHE = "usageWithHotPageCache"
