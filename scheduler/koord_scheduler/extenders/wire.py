"""Answers of extenders, read as Go's ``encoding/json`` reads them into its structures. No IO.

Names of fields may be in any case, ``null`` is as nothing, and what comes after the first value is
ignored: extenders in other languages rely on that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T", str, int, list[Any], dict[str, Any])

_DECODER = json.JSONDecoder()
_MOST = 1 << 63


def decode(body: bytes) -> Any:
    """The first JSON value.

    Raises:
        ValueError: there is none.
    """
    try:
        value, _ = _DECODER.raw_decode(body.decode(errors="replace").lstrip(" \t\r\n"))
    except ValueError as error:
        raise ValueError(f"the answer is not JSON: {error}") from None
    return value


def fields(value: Any, what: str) -> Mapping[str, Any]:
    """An object by its fields' names in small letters.

    Raises:
        ValueError: it is not an object; ``what`` it should be.
    """
    given = expect(value, dict[str, Any](), what)
    return {name.lower(): one for name, one in given.items()}


def expect(value: Any, empty: T, what: str) -> T:
    """A value of the type of ``empty``, which stands for ``null``.

    Raises:
        ValueError: it is of another type, or an integer beyond 64 bits; ``what`` it should be.
    """
    if value is None:
        return empty
    if type(value) is not type(empty) or not _fits(value):
        raise ValueError(f"the answer has {json.dumps(value)[:60]} as {what}")
    found: T = value
    return found


def _fits(value: object) -> bool:
    """True if it fits into 64 bits if it is an integer."""
    return not isinstance(value, int) or -_MOST <= value < _MOST
