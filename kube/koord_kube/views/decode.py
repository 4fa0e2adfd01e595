"""Reading a view from JSON. No IO."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


def decode_view(decoder: msgspec.json.Decoder[T], content: bytes, what: str) -> T:
    """The view in a JSON document.

    Raises:
        ValueError: it is not ``what`` ("a valid Pod"); one line says why.
    """
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"is not {what}: {error}") from None
