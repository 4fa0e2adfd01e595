"""Text to numbers and back, as the kernel reads and writes them.

The kernel has three readers and they differ: the strict one for plain numbers
(one trailing newline, no other blank), the lenient one for memory sizes, and the
one for lists of CPUs and nodes.
"""

from __future__ import annotations

import errno
import os
import re
from functools import lru_cache
from typing import NoReturn

PAGE_SIZE = 4096
#: The most pages a memory counter holds: what "-1" (v1) and "max" (v2) mean.
MAX_PAGES = (2**63 - 1) // PAGE_SIZE
U64_MAX = 2**64 - 1

_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*")
_SUFFIXES = {"k": 10, "m": 20, "g": 30, "t": 40, "p": 50, "e": 60}
_SEPARATORS = re.compile(r"[\s,]+")
_REGION = re.compile(
    r"(?:[aA][lL][lL]|(?P<start>\d+|N)(?:-(?P<end>\d+|N))?)(?::(?P<used>\d+)/(?P<group>\d+))?"
)


def refuse(code: int) -> NoReturn:
    """Fail as a system call does."""
    raise OSError(code, os.strerror(code))


def _value(digits: str) -> int:
    """A number in C's notation: ``0x`` is hexadecimal, a leading ``0`` octal."""
    if digits[:2] in ("0x", "0X"):
        return int(digits, 16)
    return int(digits, 8) if digits[0] == "0" else int(digits)


def unsigned(text: str, limit: int = U64_MAX) -> int:
    """A plain unsigned number; blanks are refused, but for one newline at the end."""
    start = 1 if text.startswith("+") else 0
    match = _NUMBER.match(text, start)
    if match is None:
        refuse(errno.EINVAL)
    value = _value(match[0])
    if value > limit:
        refuse(errno.ERANGE)
    if text[match.end() :] not in ("", "\n"):
        refuse(errno.EINVAL)
    return value


def signed(text: str) -> int:
    """A plain signed number of 64 bits."""
    if not text.startswith("-"):
        return unsigned(text, 2**63 - 1)
    if text.startswith("-+"):
        refuse(errno.EINVAL)
    return -unsigned(text[1:], 2**63)


def pages(text: str, unlimited: str) -> int:
    """A memory size in pages, rounded down; too much counts as unlimited.

    Blanks around it, a base and one suffix are understood; digits beyond 64 bits
    are lost, and no digits at all is 0, as in the kernel.
    """
    text = text.strip()
    if text == unlimited:
        return MAX_PAGES
    match = _NUMBER.match(text)
    value, end = (_value(match[0]), match.end()) if match else (0, 0)
    rest = text[end:].lower()
    if rest and rest not in _SUFFIXES:
        refuse(errno.EINVAL)
    value = (value & U64_MAX) << (_SUFFIXES[rest] if rest else 0)
    return min((value & U64_MAX) // PAGE_SIZE, MAX_PAGES)


@lru_cache(maxsize=4096)
def mask_of(text: str, width: int) -> int:
    """A list such as ``0-3,8`` or ``0-7:1/2`` as a bit mask.

    Raises:
        OSError: EINVAL for what is no list, ERANGE from ``width`` on, EOVERFLOW
            beyond 32 bits.
    """
    mask = 0
    for region in _SEPARATORS.split(text.strip()):
        if region.strip():
            mask |= _region(region, width)
    return mask


def _region(text: str, width: int) -> int:
    match = _REGION.fullmatch(text)
    if match is None:
        refuse(errno.EINVAL)
    start = _index(match["start"], width) if match["start"] else 0
    end = _index(match["end"], width) if match["end"] else start
    if not match["start"]:
        end = width - 1
    used = group = end - start + 1
    if match["group"]:
        used, group = _index(match["used"], width), _index(match["group"], width)
    if start > end or group == 0 or used > group:
        refuse(errno.EINVAL)
    if end >= width:
        refuse(errno.ERANGE)
    if used == group:
        return (1 << end + 1) - (1 << start)
    return sum(1 << bit for bit in range(start, end + 1) if (bit - start) % group < used)


def _index(text: str, width: int) -> int:
    value = width - 1 if text == "N" else int(text)
    if value >= 2**32:
        refuse(errno.EOVERFLOW)
    return value


@lru_cache(maxsize=4096)
def list_of(mask: int) -> str:
    """A bit mask as the kernel prints lists: ascending, runs joined."""
    parts, bit = [], 0
    while mask >> bit:
        if not mask >> bit & 1:
            bit += 1
            continue
        start = bit
        while mask >> bit & 1:
            bit += 1
        parts.append(f"{start}-{bit - 1}" if bit - 1 > start else str(start))
    return ",".join(parts)
