"""Errors of a configuration, for people: field, value, and the way out. No IO."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
from koord_model.fields import shown

T = TypeVar("T")

_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}


class SchedulerConfigError(ValueError):
    """The configuration cannot be used; each of ``problems`` is one line."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def problem(path: str, value: object, expected: str) -> str:
    """The line about a field whose value cannot be used."""
    return f"{path or 'the document'} is {shown(value)}; expected {expected}"


def refuse_if(problems: Iterable[str]) -> None:
    """Nothing, without problems.

    Raises:
        SchedulerConfigError: there are some.
    """
    if found := tuple(problems):
        raise SchedulerConfigError(found)


def convert(
    document: object, kind: type[T], path: str = "", of: str = "KubeSchedulerConfiguration v1"
) -> T:
    """A document as a structure whose fields are all known and of the right types.

    Raises:
        SchedulerConfigError: it is not one; ``path`` is where it was found, ``of`` what it is.
    """
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise SchedulerConfigError([_of_msgspec(str(error), document, path, of)]) from None


def _of_msgspec(message: str, document: Any, path: str, of: str) -> str:
    match = _PLACE.fullmatch(message)
    what, inside = (match["what"], match["path"] or "") if match else (message, "")
    value = document
    for name, number in _STEP.findall(inside):
        value = value[int(number)] if number else value[name]
    at = ".".join(part for part in (path, inside) if part).replace(".[", "[")
    if unknown := _UNKNOWN.fullmatch(what):
        field = f"{at}.{unknown[1]}" if at else unknown[1]
        return f"{field} is not a field of {of}; correct or remove it"
    expected = what.removeprefix("Expected ").split(",")[0].replace("`", "")
    kind, space, bound = expected.partition(" ")
    at, of_map, _ = at.partition("[...]")  # msgspec does not say of which name
    each = " for each name" if of_map else ""
    return problem(at, value, f"{_WORDS.get(kind, kind)}{space}{bound}{each}")
