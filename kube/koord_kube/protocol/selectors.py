"""Field and label selectors as the API has them: the only place that makes them. No IO.

Values come from users: in one that is not escaped a comma would begin another condition.
"""

from __future__ import annotations

import re
from typing import NewType

from koord_model.excerpt import excerpt
from koord_model.names import KEY, VALUE, is_label_key, is_label_value

ApiSelector = NewType("ApiSelector", str)
"""The text of a selector; made by nobody but the functions here."""

EVERYTHING = ApiSelector("")

_SPECIAL = re.compile(r"[\\,=]")


def field_is(path: str, value: str) -> ApiSelector:
    """Objects of which a field has this value."""
    return ApiSelector(f"{path}={_escaped(value)}")


def field_is_not(path: str, value: str) -> ApiSelector:
    """Objects of which a field has another value."""
    return ApiSelector(f"{path}!={_escaped(value)}")


def named(name: str) -> ApiSelector:
    """The one object of this name."""
    return field_is("metadata.name", name)


def label_is(key: str, value: str) -> ApiSelector:
    """Objects with this label.

    Raises:
        ValueError: no object can have such a label.
    """
    if not is_label_key(key):
        raise ValueError(f"label {excerpt(key)}: expected {KEY}")
    if not is_label_value(value):
        raise ValueError(f"label {key} {excerpt(value)}: expected {VALUE}")
    return ApiSelector(f"{key}={value}")


def all_of(*selectors: ApiSelector) -> ApiSelector:
    """Return the selector of objects that all of these select."""
    return ApiSelector(",".join(selector for selector in selectors if selector))


def _escaped(value: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", value)
