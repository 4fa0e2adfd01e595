"""JSON objects and arrays taken apart, changed in places, and put together again.

What is not changed comes out byte for byte as it came in: spaces, duplicate
keys, escapes, numbers that no program here could hold. Only the level that is
read is checked, and no value inside it: what it means, and whether it is valid,
is for the engine to say.

Names are found as Go's encoding/json finds the fields of a struct: whatever
their case, and of several the last one counts; ``null`` is as good as nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self, TypeVar

import msgspec

T = TypeVar("T")

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_SCALAR = re.compile(
    _STRING + rb"|true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.DOTALL
)
# Opening, closing, and a quotation mark that begins no whole string.
_BRACKET = re.compile(_STRING + rb'|([\[{])|([\]}])|(")', re.DOTALL)
_OPENING, _CLOSING = 1, 2
_SPACE = re.compile(rb"[ \t\n\r]*")
_KEY = re.compile(rb"[ \t\n\r]*(" + _STRING + rb")[ \t\n\r]*:[ \t\n\r]*", re.DOTALL)
_SEPARATOR = re.compile(rb"[ \t\n\r]*,")


@dataclass(slots=True)
class Part:
    """A member of an object or an element of an array.

    ``before`` is all that comes before its value, comma and key included; ``name``
    is None for an element, and where the key cannot be read.
    """

    before: bytes
    name: str | None
    value: bytes


class JsonParts:
    """What objects and arrays have in common; ``what`` names them in errors."""

    _brackets = (b"{", b"}")
    _kind = "object"

    def __init__(self, text: bytes, what: str) -> None:
        self._text, self._what = text, what
        self.parts: list[Part] = []
        opening, closing = self._brackets
        start = _end(_SPACE, text, 0)
        if text[start : start + 1] != opening:
            raise ValueError(f"{what} is no JSON {self._kind}")
        self._head = text[: start + 1]
        end = self._take(start + 1, closing)
        self._tail = text[end:]
        rest = _end(_SPACE, text, end)
        if text[rest : rest + 1] != closing:
            raise self._error(rest)
        rest = _end(_SPACE, text, rest + 1)
        if rest != len(text):
            raise self._error(rest)

    def encoded(self) -> bytes:
        """The text, with what was changed."""
        parts = (piece for part in self.parts for piece in (part.before, part.value))
        return b"".join((self._head, *parts, self._tail))

    def _take(self, position: int, closing: bytes) -> int:
        """Take all parts from a position on; where the last one ends."""
        text = self._text
        first = _end(_SPACE, text, position)
        if text[first : first + 1] == closing:
            return position
        start = position
        while True:
            name, value = self._key(position)
            end = self._value_end(value)
            self.parts.append(Part(text[start:value], name, text[value:end]))
            separator = _SEPARATOR.match(text, end)
            if separator is None:
                return end
            start, position = end, separator.end()

    def _key(self, position: int) -> tuple[str | None, int]:
        """The key at a position, and where its value begins."""
        key = _KEY.match(self._text, position)
        if key is None:
            raise self._error(_end(_SPACE, self._text, position))
        return decoded(key[1], str), key.end()

    def _value_end(self, start: int) -> int:
        scalar = _SCALAR.match(self._text, start)
        if scalar is not None:
            return scalar.end()
        if self._text[start : start + 1] not in (b"{", b"["):
            raise self._error(start)
        depth = 0
        for bracket in _BRACKET.finditer(self._text, start):
            if bracket.lastindex == _OPENING:
                depth += 1
            elif bracket.lastindex == _CLOSING:
                depth -= 1
                if not depth:
                    return bracket.end()
            elif bracket.lastindex is not None:
                break
        raise self._error(start)

    def _error(self, position: int) -> ValueError:
        return ValueError(f"{self._what} is no JSON {self._kind}: malformed at byte {position}")


class JsonArray(JsonParts):
    """A JSON array."""

    _brackets = (b"[", b"]")
    _kind = "array"

    def append(self, value: bytes) -> None:
        """Add an element at the end."""
        self.parts.append(Part(b"," if self.parts else b"", None, value))

    def _key(self, position: int) -> tuple[None, int]:
        return None, _end(_SPACE, self._text, position)


class JsonObject(JsonParts):
    """A JSON object; a map's keys, unlike a struct's fields, are ``exact``."""

    def __init__(self, text: bytes = b"{}", what: str = "it", *, exact: bool = False) -> None:
        self._exact = exact
        super().__init__(text, what)

    def get(self, name: str) -> bytes | None:
        """The value of a member; None if there is none."""
        part = self._find(name)
        return None if part is None or part.value == b"null" else part.value

    def put(self, name: str, value: bytes) -> None:
        """Set a member, under the spelling that is there."""
        part = self._find(name)
        if part is None:
            comma = b"," if self.parts else b""
            key = msgspec.json.encode(name)
            self.parts.append(Part(comma + key + b":", name, value))
        else:
            part.value = value

    def object(self, name: str, *, exact: bool = False) -> Self:
        """The object that a member is, to be ``put`` back once changed; an empty one if none."""
        return type(self)(self.get(name) or b"{}", f'"{name}" of {self._what}', exact=exact)

    def array(self, name: str) -> JsonArray:
        """The array that a member is, to be ``put`` back once changed; an empty one if none."""
        return JsonArray(self.get(name) or b"[]", f'"{name}" of {self._what}')

    def text(self, name: str) -> str:
        """A member that is a string; empty if there is none, or it is something else."""
        return decoded(self.get(name), str) or ""

    def _find(self, name: str) -> Part | None:
        wanted = self._form(name)
        for part in reversed(self.parts):
            if part.name is not None and self._form(part.name) == wanted:
                return part
        return None

    def _form(self, name: str) -> str:
        return name if self._exact else name.casefold()


def decoded(value: bytes | None, kind: type[T]) -> T | None:
    """A value as what it should be; None if it is not, or cannot be held here.

    Go would read half a surrogate pair, or bytes that are not UTF-8, as U+FFFD.
    """
    if value is None:
        return None
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _end(pattern: re.Pattern[bytes], text: bytes, position: int) -> int:
    match = pattern.match(text, position)
    return position if match is None else match.end()
