"""What NodeMetric's policy may say, for whoever writes it and for whoever follows it. No IO."""

from __future__ import annotations

from enum import StrEnum

MOST_SECONDS = 12 * 3600
"""What the node's metric cache keeps; older points nobody can aggregate."""


class MemoryPolicy(StrEnum):
    """Which memory counts as used."""

    WITHOUT_PAGE_CACHE = "usageWithoutPageCache"
    WITH_PAGE_CACHE = "usageWithPageCache"
    WITH_HOT_PAGE_CACHE = "usageWithHotPageCache"
