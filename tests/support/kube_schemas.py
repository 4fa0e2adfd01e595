"""Structural schemas of custom resources: pruning, defaults, and what is valid. No IO.

Validation is ``jsonschema``'s, of draft 4, whose exclusive bounds are flags as in OpenAPI
3.0. Not here: CEL rules (``x-kubernetes-validations``).
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft4Validator, FormatChecker
from koord_kube.protocol.api import Object

Schema = dict[str, Any]

ANY = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
EITHER = "x-kubernetes-int-or-string"
_OF_ALL_OBJECTS = ("apiVersion", "kind", "metadata")
_KEPT = (
    "enum", "format", "maxItems", "maxLength", "maxProperties", "maximum", "exclusiveMaximum",
    "minItems", "minLength", "minProperties", "minimum", "exclusiveMinimum", "multipleOf",
    "pattern", "required",
)  # fmt: skip
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_BOUNDS = {"minimum": "greater", "maximum": "less"}
_TYPES = ("object", "array", "string", "integer", "number", "boolean")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")

_FORMATS = FormatChecker(formats=())


@_FORMATS.checks("int32")
def _int32(value: object) -> bool:
    return not isinstance(value, int) or -(2**31) <= value < 2**31


@_FORMATS.checks("int64")
def _int64(value: object) -> bool:
    return not isinstance(value, int) or -(2**63) <= value < 2**63


@_FORMATS.checks("date-time")
def _date_time(value: object) -> bool:
    return not isinstance(value, str) or _DATE_TIME.fullmatch(value) is not None


class Validated:
    """One version's schema, and what it makes of objects."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._validator = Draft4Validator(_plain(schema), format_checker=_FORMATS)

    def complete(self, given: Object) -> list[str]:
        """Prune and default an object in place; returns the fields that are unknown."""
        dropped: list[str] = []
        _prune(self._schema, given, "", dropped, embedded=True)
        _default(self._schema, given)
        return dropped

    def wrong(self, given: Object) -> list[tuple[str, str]]:
        """The fields that are not as the schema has them, each with why."""
        found = [_cause(error) for error in self._validator.iter_errors(given)]
        return sorted([*found, *_lists(self._schema, given, "")])


def _cause(error: Any) -> tuple[str, str]:
    path = _path(error.absolute_path)
    if error.validator == "required":
        missing = next(one for one in error.validator_value if one not in error.instance)
        return (f"{path}.{missing}" if path else missing), "Required value"
    shown = json.dumps(error.instance)[:100]
    if error.validator == "type":
        words = error.validator_value
        wanted = words if isinstance(words, str) else ",".join(words)
        kind = _kind_of(error.instance)
        return path, f'Invalid value: "{kind}": {path} in body must be of type {wanted}: "{kind}"'
    if error.validator == "format" and error.validator_value in ("int32", "int64"):
        # The server's own code for these names no field.
        wanted = f"must be of type integer with format {error.validator_value}"
        return "<nil>", f'Invalid value: "": Checked value {wanted} in {path}'
    if error.validator == "format":
        return path, f"Invalid value: {shown}: {path} in body must be of type date-time: {shown}"
    if error.validator in _BOUNDS:
        words = f"should be {_BOUNDS[error.validator]} than or equal to {error.validator_value}"
        return path, f"Invalid value: {shown}: {path} in body {words}"
    if error.validator == "enum":
        words = ", ".join(json.dumps(one) for one in error.validator_value)
        return path, f"Unsupported value: {shown}: supported values: {words}"
    return path, f"Invalid value: {shown}: {path} in body {error.message[:200]}"


def _kind_of(value: Any) -> str:
    found = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else found.get(type(value), "object")


def _path(steps: Any) -> str:
    text = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in steps)
    return text.lstrip(".")


def _plain(schema: Schema) -> Schema:
    """The same as JSON schema of draft 4, which knows neither nullable nor int-or-string."""
    found: Schema = {name: schema[name] for name in _KEPT if name in schema}
    types = ["integer", "string"] if schema.get(EITHER) else [schema.get("type")]
    if types != [None]:
        found["type"] = [*types, "null"] if schema.get("nullable") else types
    if "properties" in schema:
        found["properties"] = {name: _plain(one) for name, one in schema["properties"].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = _plain(schema["additionalProperties"])
    if "items" in schema:
        found["items"] = _plain(schema["items"])
    for name in _JUNCTORS:
        if name in schema:
            found[name] = [_plain(one) for one in schema[name]]
    if "not" in schema:
        found["not"] = _plain(schema["not"])
    return found


def _prune(
    schema: Schema, given: Any, path: str, dropped: list[str], *, embedded: bool = False
) -> None:
    embedded = embedded or bool(schema.get(EMBEDDED))
    if isinstance(given, list):
        for index, one in enumerate(given):
            _prune(schema.get("items", {}), one, f"{path}[{index}]", dropped)
        return
    if not isinstance(given, dict):
        return
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    for name in list(given):
        where = f"{path}.{name}" if path else name
        if embedded and name in _OF_ALL_OBJECTS:
            continue
        if name in properties:
            _prune(properties[name], given[name], where, dropped)
        elif isinstance(more, dict):
            _prune(more, given[name], where, dropped)
        elif not schema.get(ANY) and more is not True:
            dropped.append(where)
            del given[name]


def _default(schema: Schema, given: Any) -> None:
    if isinstance(given, list):
        for one in given:
            _default(schema.get("items", {}), one)
        return
    if not isinstance(given, dict):
        return
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    for name, one in properties.items():
        if name in given and given[name] is None and not one.get("nullable"):
            del given[name]  # where nothing may be it was not said
        if "default" in one and name not in given:
            given[name] = copy.deepcopy(one["default"])
        if name in given:
            _default(one, given[name])
    if isinstance(more, dict):
        for name in given.keys() - properties.keys():
            _default(more, given[name])


def _lists(schema: Schema, given: Any, path: str) -> Iterator[tuple[str, str]]:
    """Items that are there twice in a list that is a set or a map."""
    if isinstance(given, dict):
        more = schema.get("additionalProperties")
        for name, one in given.items():
            inner = schema.get("properties", {}).get(name, more)
            if isinstance(inner, dict):
                yield from _lists(inner, one, f"{path}.{name}" if path else name)
    if not isinstance(given, list):
        return
    seen: list[Any] = []
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys", [])
    for index, one in enumerate(given):
        where = f"{path}[{index}]"
        yield from _lists(schema.get("items", {}), one, where)
        same = {key: one.get(key) for key in keys} if isinstance(one, dict) else one
        if kind in ("set", "map") and same in seen:
            yield where, f"Duplicate value: {json.dumps(same)}"
        seen.append(same)


_SAID_WHEN_EMPTY = ("default", "example", "items", "additionalProperties", "not", ANY)


def drop_empty(schema: Schema) -> None:
    """Away with what says nothing in a schema, as where the server has read it into its types."""
    for name in [one for one in schema if one not in _SAID_WHEN_EMPTY]:
        value = schema[name]
        if value is None or value is False or value in ("", [], {}):
            del schema[name]
    for _, inner in _below(schema, ""):
        drop_empty(inner)
    for name in _JUNCTORS:
        for inner in schema.get(name, []):
            drop_empty(inner)


def unstructural(schema: Any, path: str = "spec.validation.openAPIV3Schema") -> list[str]:
    """What is wrong with a schema for it to be structural; each is "field: what"."""
    if not isinstance(schema, dict):
        return [f"{path}: Required value: schemas are required"]
    found = list(_structural(schema, path))
    if schema.get("type") != "object":
        found.append(f'{path}.type: Invalid value: must be "object" at the root')
    meta = schema.get("properties", {}).get("metadata", {})
    if meta.get("properties", {}).keys() - {"name", "generateName"}:
        found.append(f"{path}.properties[metadata]: Forbidden: must not specify anything other")
    return found


def _structural(schema: Schema, path: str) -> Iterator[str]:
    type_ = schema.get("type")
    if type_ is None and not (schema.get(EITHER) or schema.get(ANY)):
        yield f"{path}.type: Required value: must not be empty for specified object fields"
    if type_ is not None and type_ not in _TYPES:
        yield f"{path}.type: Unsupported value: {type_}"
    for name in ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems"):
        if name in schema:
            yield f"{path}.{name}: Forbidden: {name} is not supported"
    if schema.get("uniqueItems"):
        yield f"{path}.uniqueItems: Forbidden: uniqueItems cannot be set to true"
    if schema.get("properties") and schema.get("additionalProperties"):
        yield f"{path}.additionalProperties: Forbidden: mutually exclusive with properties"
    if type_ == "array" and not isinstance(schema.get("items"), dict):
        yield f"{path}.items: Required value: must be specified"
    if schema.get("x-kubernetes-list-type") == "map" and not schema.get(
        "x-kubernetes-list-map-keys"
    ):
        yield f"{path}.x-kubernetes-list-map-keys: Required value"
    yield from _map_keys(schema, path)
    yield from _patterns(schema, path)
    yield from _junctors(schema, schema, path)
    yield from _defaults(schema, path)
    for where, inner in _below(schema, path):
        yield from _structural(inner, where)


def _map_keys(schema: Schema, path: str) -> Iterator[str]:
    """By what items of a list are told apart each of them has to have."""
    items = schema.get("items") or {}
    for key in schema.get("x-kubernetes-list-map-keys", []):
        known = items.get("properties", {}).get(key, {})
        if key not in items.get("required", []) and "default" not in known:
            where = f"{path}.items.properties[{key}].default"
            yield f"{where}: Required value: it must have a default or be a required property"


def _below(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    for name, one in schema.get("properties", {}).items():
        yield f"{path}.properties[{name}]", one
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield f"{path}.{name}", schema[name]


def _patterns(schema: Schema, path: str) -> Iterator[str]:
    try:
        re.compile(schema.get("pattern", ""))
    except re.error as error:
        yield f"{path}.pattern: Invalid value: must be a valid regular expression: {error}"


def _defaults(schema: Schema, path: str) -> Iterator[str]:
    if "default" not in schema:
        return
    whole = {"type": "object", "properties": {"it": schema}}
    given = {"it": copy.deepcopy(schema["default"])}
    validated = Validated(whole)
    for field in validated.complete(given):
        yield f"{path}.default: Invalid value: must not have unknown fields: {field}"
    for _, why in validated.wrong(given):
        yield f"{path}.default: {why}"


_NOT_IN_JUNCTORS = ("description", "type", "default", "additionalProperties", "nullable", "title")
_TYPED = ({"type": "integer"}, {"type": "string"})


def _junctors(schema: Schema, outer: Schema, path: str) -> Iterator[str]:
    """Below allOf, anyOf, oneOf and not there are conditions alone."""
    for name in (*_JUNCTORS, "not"):
        found = schema.get(name, [])
        for index, one in enumerate(found if isinstance(found, list) else [found]):
            where = f"{path}.{name}[{index}]"
            if outer.get(EITHER) and one in _TYPED:
                continue
            yield from _condition(one, outer, where)


def _condition(one: Schema, outer: Schema, where: str) -> Iterator[str]:
    for name in (*_NOT_IN_JUNCTORS, ANY, EMBEDDED, EITHER):
        if name in one:
            yield f"{where}.{name}: Forbidden: must be empty to be structural"
    for name, inner in one.get("properties", {}).items():
        known = outer.get("properties", {}).get(name, {})
        yield from _condition(inner, known, f"{where}.properties[{name}]")
    if isinstance(one.get("items"), dict):
        yield from _condition(one["items"], outer.get("items", {}), f"{where}.items")
    yield from _junctors(one, outer, where)
