"""The shapes in which tools print: lines "key : value", matrices of links, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from koord_devices.core.linked_groups import Pair

_MEMORY = re.compile(r"([0-9]{1,15})(?:\.[0-9]+)?\s*([KMGT]?)i?B?", re.IGNORECASE)
_POWERS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_LONGEST_LINE = 1000
_NUMBER = re.compile(r"[0-9]{1,9}")
_BRACKET = re.compile(r"[\[{]")
_MOST_BRACKETS = 1000
_SCANNER = json.JSONDecoder()


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
    """Parse the links of a matrix whose rows and columns are named PREFIX and a number.

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
    return [item for item in given if isinstance(item, Mapping)]


def decode(text: str) -> Any:
    """The JSON object or array in a text, the longest where there are several.

    Brackets of the lines before and after it ("GPU[0]", "[WARNING] …") are none of its.

    Raises:
        OutputError: there is none.
    """
    start, end = max(_spans(text), key=lambda span: span[1] - span[0], default=(0, 0))
    try:
        return msgspec.json.decode(text[start:end])
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        raise OutputError("it printed no JSON") from None


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Spans of values that begin with a bracket, one after the other."""
    place = 0
    for _ in range(_MOST_BRACKETS):
        bracket = _BRACKET.search(text, place)
        if bracket is None:
            return
        place = bracket.start()
        try:
            _, end = _SCANNER.raw_decode(text, place)
        except json.JSONDecodeError as error:
            line = text.find("\n", place)
            if '"' not in text[place : error.pos]:
                place += 1
            elif 0 <= error.pos <= line:
                place = line
            else:
                return  # JSON that is broken: what is inside of it is not all
        except (RecursionError, ValueError):  # numbers of thousands of digits
            return
        else:
            yield place, end
            place = end


def at(given: object, *path: str) -> str:
    """The text or number at a path of a JSON object; "" where there is none, or "N/A"."""
    for name in path:
        given = given.get(name) if isinstance(given, Mapping) else None
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        return ""
    text = str(given).strip()
    return "" if text.upper() in ("N/A", "UNKNOWN", "NONE") else text
