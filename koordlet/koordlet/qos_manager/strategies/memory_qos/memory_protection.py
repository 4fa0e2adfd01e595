"""Protection of a pod's memory, and the point of throttling: arithmetic only, no IO.

The formulas are Koordinator's (``memoryQOS`` of the NodeSLO). All amounts are bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from koord_host.knobs.table import KNOBS
from koord_model.demand import Amounts
from koord_model.keys import BATCH_MEMORY, MEMORY
from koord_model.memory_qos import MemoryQoS
from koord_model.qos import QoSClass

from koordlet.qos_manager.core.strategy import Term, shown

PAGE = KNOBS["memory.high"].v2_form.unit
"""The kernel's page size: it rounds down to it."""

PROTECTED = (
    "min = request × minLimitPercent / 100; "
    "low = max(request × lowLimitPercent / 100, min) where lowLimitPercent > 0 else 0"
)
WATERMARK = "high = max(limit × wmarkRatio / 100, protected)"


def _throttling(limit: str) -> str:
    room = f"max({limit} − request, 0)"
    return f"high = max(request + {room} × throttlingPercent / 100, protected)"


class MemoryProtection(NamedTuple):
    """Memory kept for a group: ``least`` in any case, ``low`` while others can be reclaimed."""

    least: int = 0
    low: int = 0

    def __str__(self) -> str:
        if not self.low:
            return shown(self.least, "bytes") if self.least else "nothing"
        return f"{shown(self.least, 'bytes')} (if possible {shown(self.low, 'bytes')})"


def given(request: int, asked: MemoryQoS) -> tuple[Term, ...]:
    """Return the terms of ``protection``."""
    found = protection(request, asked)
    return (
        Term("request", request, "bytes"),
        Term("minLimitPercent", asked.min_limit, "%"),
        Term("lowLimitPercent", asked.low_limit, "%"),
        Term("min", found.least, "bytes"),
        Term("low", found.low, "bytes"),
    )


def amount(amounts: Amounts, qos: QoSClass) -> int:
    """The memory among requests or limits, 0 without: best-effort pods' is batch-memory."""
    return amounts.get(BATCH_MEMORY if qos is QoSClass.BE else MEMORY, 0)


def protection(request: int, asked: MemoryQoS) -> MemoryProtection:
    """Return the protected part of a request; ``memory.low`` below ``memory.min`` has no effect."""
    least = request * asked.min_limit // 100
    low = request * asked.low_limit // 100
    return MemoryProtection(least, max(low, least) if low else 0)


def together(parts: Iterable[MemoryProtection]) -> MemoryProtection:
    """The sum: what a group above others needs for theirs to hold."""
    least = low = 0
    for part in parts:
        least += part.least
        low += part.low
    return MemoryProtection(least, low)


def larger(memory_protection: MemoryProtection, other: MemoryProtection) -> MemoryProtection:
    """The larger of each."""
    return MemoryProtection(
        max(memory_protection.least, other.least), max(memory_protection.low, other.low)
    )


class MemorySizes(NamedTuple):
    """Of a container: what it requests and may have, 0 without; ``top`` is the node's memory."""

    request: int
    limit: int
    top: int | None


class MemoryHigh(NamedTuple):
    """Throttling point of a container; ``size`` is ``None`` where that is not known yet."""

    size: int | None
    formula: str
    given: tuple[Term, ...]


def held_back(
    sizes: MemorySizes, least: int, asked: MemoryQoS, *, instead: bool = False
) -> MemoryHigh | None:
    """Return where its tasks begin to reclaim, never below the protection; ``None``: nowhere.

    Without a limit the node's memory counts as one. ``instead``: at the watermark too, if
    that is lower.
    """
    found = _throttled(sizes, least, asked)
    mark = _watermark(sizes.limit, least, asked) if instead else None
    if found is None or found.size is None or mark is None or mark.size is None:
        return mark or found
    return min(mark, found, key=lambda point: point.size or 0)


def _throttled(sizes: MemorySizes, least: int, asked: MemoryQoS) -> MemoryHigh | None:
    if not asked.throttling:
        return None
    top = sizes.limit or sizes.top
    word = "limit" if sizes.limit else "limit (the node's)"
    room = max(top - sizes.request, 0) if top is not None else 0
    high = max(_pages(sizes.request + room * asked.throttling // 100), least)
    size = None if top is None else high
    given = (
        Term("request", sizes.request, "bytes"),
        Term(word, top, "bytes"),
        Term("throttlingPercent", asked.throttling, "%"),
        Term("protected", least, "bytes"),
        Term("high", size, "bytes"),
    )
    return MemoryHigh(size, _throttling(word), given)


def _watermark(limit: int, least: int, asked: MemoryQoS) -> MemoryHigh | None:
    if not asked.wmark_ratio or not limit:
        return None
    high = max(_pages(limit * asked.wmark_ratio // 100), least)
    given = (
        Term("limit", limit, "bytes"),
        Term("wmarkRatio", asked.wmark_ratio, "%"),
        Term("protected", least, "bytes"),
        Term("high", high, "bytes"),
    )
    return MemoryHigh(high, WATERMARK, given)


def _pages(size: int) -> int:
    # With none at all a container would never run again.
    return max(size // PAGE * PAGE, PAGE)


class PageCacheLimit(NamedTuple):
    """A limit of page cache; ``None`` leaves a knob alone."""

    enable: int | None = None
    size: int | None = None
    sync: int | None = None


def page_cache(limit: int, asked: MemoryQoS) -> PageCacheLimit:
    """Return a pod's limit of page cache; ``limit`` is that of its memory, 0 without one.

    Bytes go before percent, and no limit is larger than the memory's. A size of 0 switches
    it off, unless it is switched on in so many words.
    """
    size = asked.page_cache_limit_size
    if size is not None:
        size = min(size, limit) if limit else size
    elif asked.page_cache_limit_percent is not None and limit:
        size = limit * asked.page_cache_limit_percent // 100
    enable = None if size is None else int(size > 0)
    if asked.page_cache_enable is not None:
        enable = int(asked.page_cache_enable)
    sync = int(asked.page_cache_reclaim_sync or False) if size else None
    return PageCacheLimit(enable, size, sync)
