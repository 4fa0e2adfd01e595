"""The shapes in which tools print: lines "key : value", matrices of links, JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from koord_devices.core.linked_groups import Pair

_MEMORY = re.compile(r"([0-9]{1,15})(?:\.[0-9]+)?\s*([KMGT]?)i?B?", re.IGNORECASE)
_POWERS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_LONGEST_LINE = 1000
_NUMBER = re.compile(r"[0-9]{1,9}")


class OutputError(ValueError):
    """A tool printed what its parser does not understand; the message is one line."""


def lines(text: str) -> Iterator[str]:
    """The lines, the beginnings of those that no tool prints: a pattern might search long."""
    for line in text.splitlines():
        yield line[:_LONGEST_LINE]


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """The lines "key : value", in order."""
    for line in lines(text):
        key, colon, value = line.partition(":")
        if colon and key.strip():
            yield key.strip(), value.strip()


def fields(text: str) -> dict[str, str]:
    """The lines "key : value"; of a key that is there twice, the first."""
    found: dict[str, str] = {}
    for key, value in pairs(text):
        found.setdefault(key, value)
    return found


def number(text: str) -> int | None:
    """A whole number; ``None`` for anything else."""
    return int(text) if _NUMBER.fullmatch(text.strip()) else None


def memory(text: str, unit: str = "") -> int:
    """Bytes of "65536", "65536 MiB" or "64GB", which mean powers of two; 0 for anything else."""
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        return 0
    return int(match[1]) << _POWERS[(match[2] or unit).upper()]


def link_matrix(text: str, prefix: str, kinds: Mapping[str, str]) -> dict[Pair, str]:
    """How devices are linked, of a matrix whose rows and columns are named PREFIX and a number.

    ``kinds`` are the kinds of link that count, and what they are called in the file. A link
    counts if both directions say so.
    """
    columns: list[int] = []
    cells: dict[tuple[int, int], str] = {}
    named = re.compile(rf"{re.escape(prefix)}([0-9]{{1,4}})")
    for line in lines(text):
        words = line.split()
        numbers = [int(match[1]) for word in words if (match := named.fullmatch(word))]
        if len(numbers) > 1 or (numbers and len(words) == 1):
            columns = columns or numbers
        elif numbers and columns:
            cells |= {
                (numbers[0], column): word for column, word in zip(columns, words[1:], strict=False)
            }
    return {
        frozenset(pair): kinds[kind]
        for pair, kind in cells.items()
        if kind in kinds and pair[0] != pair[1] and cells.get(pair[::-1]) == kind
    }


def objects(text: str, *keys: str) -> list[Mapping[str, Any]]:
    """The objects of a JSON array, or of the array that an object has under one of ``keys``.

    Tools print warnings before and after it.

    Raises:
        OutputError: the text is not one.
    """
    given = decode(text)
    if isinstance(given, Mapping):
        given = next((given[key] for key in keys if key in given), [given])
    if not isinstance(given, list):
        raise OutputError("it printed no JSON array")
    return [one for one in given if isinstance(one, Mapping)]


def decode(text: str) -> Any:
    """The JSON value in a text.

    Raises:
        OutputError: there is none.
    """
    begins = [place for sign in "[{" if (place := text.find(sign)) >= 0]
    ends = max(text.rfind("]"), text.rfind("}"))
    try:
        return msgspec.json.decode(text[min(begins, default=0) : ends + 1])
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        raise OutputError("it printed no JSON") from None


def at(given: object, *path: str) -> str:
    """The text or number at a path of a JSON object; "" where there is none, or "N/A"."""
    for name in path:
        given = given.get(name) if isinstance(given, Mapping) else None
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        return ""
    text = str(given).strip()
    return "" if text.upper() in ("N/A", "UNKNOWN", "NONE") else text
