"""Whole numbers in labels and annotations. No IO."""

from __future__ import annotations

import re

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


def whole_number(text: str, bits: int = 64) -> int | None:
    """A number as Go's ``ParseInt`` reads it, within so many bits; ``None`` if it is not one."""
    if not _WHOLE.fullmatch(text):
        return None
    number, end = int(text), 1 << (bits - 1)
    return number if -end <= number < end else None
