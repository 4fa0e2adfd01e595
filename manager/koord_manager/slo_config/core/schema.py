"""A JSON document held against a structural schema: unknown names and invalid values.

Schemas are in the words of ``koord_kube.definitions.schema``; ``{}`` allows anything. No IO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from koord_kube.definitions.schema import Schema
from koord_model.fields import shown

_LONGEST_NAME = 64
"""Longer names are like no other; to look for the nearest takes time with the square of it."""

_FEW = 4
"""So many names are listed where none is near."""


class UnknownField(NamedTuple):
    """A field that the schema does not have, and the nearest name, if there is one.

    ``names`` are all names, if they are few.
    """

    path: str
    nearest: str = ""
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """For people, on one line."""
        found = f"unknown field {self.path} is ignored"
        if self.nearest:
            return f"{found}; did you mean {self.nearest}?"
        return f"{found}; expected {' or '.join(self.names)}" if self.names else found


def fields_of(names: Iterable[str], **more: Schema) -> Schema:
    """An object with these fields, of which no more is known than of those in ``more``."""
    return {"properties": {name: {} for name in names} | more}


def unknown_fields(given: object, schema: Schema, path: str = "") -> Iterator[UnknownField]:
    """The unknown fields of a document, at every depth, in their order."""
    if not schema:
        return  # whatever there is, however deep
    if isinstance(given, list):
        for index, item in enumerate(given):
            yield from unknown_fields(item, schema.get("items", {}), f"{path}[{index}]")
    elif isinstance(given, Mapping):
        for name, value in given.items():
            part = _part(schema, name)
            at = f"{path}.{_plain(name)}" if path else _plain(name)
            if part is None:
                yield _unknown(at, name, schema.get("properties", {}))
            else:
                yield from unknown_fields(value, part, at)


def violations(given: object, schema: Schema, path: str = "") -> Iterator[str]:
    """Lines on what an API server would refuse: ".a[0].b is VALUE; expected …"."""
    if given is None or not schema:
        return
    expected = _EXPECTED.get(_type(schema), _anything)(given, schema)
    if expected:
        yield f"{path} is {shown(given)}; expected {expected}"
    elif isinstance(given, list):
        for index, item in enumerate(given):
            yield from violations(item, schema.get("items", {}), f"{path}[{index}]")
    elif isinstance(given, Mapping):
        for name, value in given.items():
            yield from violations(value, _part(schema, name) or {}, f"{path}.{_plain(name)}")


def _part(schema: Schema, name: str) -> Schema | None:
    """The type of a field; ``None`` if the field is unknown."""
    properties = schema.get("properties", {})
    if name in properties:
        found: Schema = properties[name]
        return found
    if schema.get("x-kubernetes-preserve-unknown-fields") or not schema:
        return {}
    others: Schema | None = schema.get("additionalProperties")
    return others


def _unknown(path: str, name: str, known: Iterable[str]) -> UnknownField:
    names = tuple(known)
    # Go's decoder takes names in whatever case; here "Enable" is near to "enable", no more.
    folded = {item.casefold(): item for item in names}
    if len(name) <= _LONGEST_NAME:
        for close_match in get_close_matches(name.casefold(), folded, 1):
            return UnknownField(path, nearest=folded[close_match])
    return UnknownField(path, names=names if len(names) <= _FEW else ())


def _plain(name: str) -> str:
    return name if name.isprintable() and 0 < len(name) <= _LONGEST_NAME else shown(name)


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    found: str = schema.get("type", "")
    return found


def _anything(_given: object, _schema: Schema) -> str:
    return ""


def _integer(given: object, schema: Schema) -> str:
    bits = int(schema.get("format", "int64").removeprefix("int"))
    low = schema.get("minimum", -(1 << bits - 1))
    high = schema.get("maximum", (1 << bits - 1) - 1)
    whole = isinstance(given, int) and not isinstance(given, bool)
    return "" if whole and low <= given <= high else f"{low} to {high}"


def _text(given: object, schema: Schema) -> str:
    words = schema.get("enum")
    if isinstance(given, str) and (not words or given in words):
        return ""
    return " or ".join(words) if words else "text"


def _int_or_text(given: object, _schema: Schema) -> str:
    fits = isinstance(given, int | str) and not isinstance(given, bool)
    return "" if fits else "a whole number or text"


def _of_type(kind: type, expected: str) -> Callable[[object, Schema], str]:
    return lambda given, _: "" if isinstance(given, kind) else expected


_EXPECTED: Mapping[str, Callable[[object, Schema], str]] = {
    "object": _of_type(Mapping, "an object"),
    "array": _of_type(list, "a list"),
    "boolean": _of_type(bool, "true or false"),
    "string": _text,
    "integer": _integer,
    "int-or-string": _int_or_text,
}
"""Description of the expected value, "" if it fits, by the schema's type."""
