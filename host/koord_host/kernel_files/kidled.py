"""kidled's statistics of idle pages, a vendor kernel's (Anolis, Alibaba Cloud): no IO.

A page's age is in scans; a line has the bytes of one kind of pages by age. Letters of a
kind: clean or dirty, swap or file, evictable or unevictable, inactive or active.
"""

from __future__ import annotations

from koord_model.excerpt import excerpt

_COLD = frozenset(("cfei", "dfei", "cfui", "dfui"))
"""Pages of files, inactive: what Koordinator counts."""
_COLDEST = 5
"""The first column of 60 scans or more, with the default limits."""


def cold_bytes(text: str) -> int:
    """Bytes of page cache that were idle for long, from ``memory.idle_page_stats``.

    Raises:
        ValueError: it is not as the kernel writes it; the message does not name the file.
    """
    total, seen = 0, set()
    for line in text.splitlines():
        words = line.split()
        if words and words[0] in _COLD:
            seen.add(words[0])
            try:
                total += sum(int(word) for word in words[1 + _COLDEST :])
            except ValueError:
                raise ValueError(f"has {excerpt(line.strip())} where sizes belong") from None
    if seen != _COLD:
        raise ValueError(f"has no line {', '.join(sorted(_COLD - seen))}")
    return total
