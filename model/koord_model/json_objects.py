"""Places in an object's JSON: read, and written into a copy of what is on the way."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
"""An object's JSON."""


def inside(given: Object, *path: str) -> Object:
    """The object at a path; an empty one where there is none."""
    for name in path:
        found = given.get(name)
        given = found if isinstance(found, dict) else {}
    return given


def placed(given: Object, value: Any, *path: str) -> Object:
    """The object with a value at a path; what is on the way there is copied, or made."""
    name, *rest = path
    if rest:
        value = placed(inside(given, name), value, *rest)
    return {**given, name: value}


def without(given: Object, *names: str) -> Object:
    """The object without some of its fields."""
    return {name: value for name, value in given.items() if name not in names}
