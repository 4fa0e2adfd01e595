"""JSON objects read level by level: values that nobody asks for stay byte for byte as they came.

Fields are found as Go's encoding/json finds those of a struct, whatever their case; ``null`` is
as good as nothing. What Go's encoder never writes is not kept: repeated keys (the last value
stays), spaces between members, escapes in keys; text with lone surrogates, or nested beyond all
reason, cannot be read.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw

T = TypeVar("T")

_NULL = Raw(b"null")


class JsonObject:
    """A JSON object; ``members`` has its values by their keys as they are spelt."""

    def __init__(self, text: bytes, what: str) -> None:
        """Read one.

        Raises:
            ValueError: it is not a JSON object; the message is one line that begins with ``what``.
        """
        self._what = what
        self.members = parsed(text, dict[str, Raw], f"{what} is not a JSON object")

    def encoded(self) -> bytes:
        """The text, with what was changed."""
        return msgspec.json.encode(self.members)

    def get(self, field: str) -> Raw | None:
        """The value of a field; None if there is none."""
        value = self.members.get(self._spelling(field), _NULL)
        return None if value == _NULL else value

    def put(self, field: str, value: object) -> None:
        """Set a field, under the spelling that is there."""
        self.members[self._spelling(field)] = raw(value)

    def object(self, field: str) -> JsonObject:
        """The object that a field is; an empty one if there is none."""
        return JsonObject(self.get(field) or b"{}", f'"{field}" of {self._what}')

    def array(self, field: str) -> list[Raw]:
        """The array that a field is; an empty one if there is none."""
        problem = f'"{field}" of {self._what} is not a JSON array'
        return parsed(self.get(field) or b"[]", list[Raw], problem)

    def text(self, field: str) -> str:
        """A field that is a string; empty if there is none, or it is something else."""
        return decoded(self.get(field), str) or ""

    def _spelling(self, field: str) -> str:
        folded = field.casefold()
        return next((key for key in reversed(self.members) if key.casefold() == folded), field)


def parsed(text: bytes, kind: type[T], problem: str) -> T:
    """JSON text as what it should be.

    Raises:
        ValueError: it is not; the message is one line that begins with ``problem``.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{problem}: {error}") from None


def decoded(value: Raw | None, kind: type[T]) -> T | None:
    """A value as what it should be; None if it is not."""
    try:
        return None if value is None else parsed(value, kind, "")
    except ValueError:
        return None


def raw(value: object) -> Raw:
    """A value to be put among others."""
    return Raw(msgspec.json.encode(value))
