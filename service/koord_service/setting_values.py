"""Values of settings: the text that people write, and the type that a program declares.

The same text means the same as a flag's value, in the environment and in a file.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any, get_origin

import msgspec
from koord_model import duration

# What YAML and Go programs accept as booleans.
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1", "t", "y"), True),
    **dict.fromkeys(("false", "no", "off", "0", "f", "n"), False),
}

_EXPECTED = {
    int: "a whole number",
    float: "seconds, or a duration like 1m30s",
    bool: "true or false",
}


class SettingValueError(ValueError):
    """The text cannot be a value of this setting; says what was expected instead."""


def parse_value(kind: Any, choices: Sequence[str], text: str) -> Any:
    """The value of a setting of this type.

    Raises:
        SettingValueError: the text is none of the choices, or not of this type.
    """
    if choices and text not in choices:
        raise SettingValueError(f'is "{text}"; expected one of {", ".join(choices)}')
    if is_list(kind):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        return _convert(kind, text)
    except msgspec.ValidationError:
        expected = _EXPECTED.get(kind, "text")
        raise SettingValueError(f'is "{text}"; expected {expected}') from None


def is_list(kind: Any) -> bool:
    """True if a setting of this type holds several values."""
    return get_origin(kind) is tuple


def show_value(value: Any) -> str:
    """The value as people would write it."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _convert(kind: Any, text: str) -> Any:
    value: object = _BOOLEANS.get(text.lower(), text) if kind is bool else text
    if kind is float:
        # Go programs write durations as "10s", "1m30s", "500ms".
        with contextlib.suppress(ValueError):
            value = duration.seconds(text)
    converted = msgspec.convert(value, kind, strict=False)
    if kind is float and not math.isfinite(converted):
        raise msgspec.ValidationError
    return converted
