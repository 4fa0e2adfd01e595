"""CustomResourceDefinitions: what the server asks of them, and of the objects of their kinds.

Objects are pruned and defaulted; validation is ``jsonschema``'s, of draft 4, whose exclusive
bounds are flags as in OpenAPI 3.0. Not here: CEL rules, conversion between versions.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft4Validator, FormatChecker
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import Resource

from tests.support.kube_api.kinds import Causes, Key

Schema = dict[str, Any]

_ANY = "x-kubernetes-preserve-unknown-fields"
_EITHER = "x-kubernetes-int-or-string"
_APPROVED = "api-approved.kubernetes.io"
_PROTECTED = re.compile(r"(^|\.)(k8s|kubernetes)\.io$")
_OF_ALL_OBJECTS = ("apiVersion", "kind", "metadata")
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_UNKNOWN_TO_JSON_SCHEMA = {"default", "nullable", "type", "description"}
_FORBIDDEN = (
    "$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "uniqueItems",
)  # fmt: skip
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


# Objects of a kind that a definition makes.


class Validated:
    """One version's schema, and what it makes of objects."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._validator = Draft4Validator(_plain(schema), format_checker=_FORMATS)

    def complete(self, given: Object) -> list[str]:
        """Prune and default an object in place; returns the fields that are unknown."""
        dropped: list[str] = []
        _prune(self._schema, given, "", dropped, whole=True)
        _default(self._schema, given)
        return dropped

    def wrong(self, given: Object) -> Causes:
        """The fields that are not as the schema has them, each with why."""
        found = [_cause(error) for error in self._validator.iter_errors(given)]
        return sorted([*found, *_duplicates(self._schema, given, "")])


def _cause(error: Any) -> tuple[str, str]:
    steps = (f"[{one}]" if isinstance(one, int) else f".{one}" for one in error.absolute_path)
    path = "".join(steps).lstrip(".")
    if error.validator == "required":
        missing = next(one for one in error.validator_value if one not in error.instance)
        return f"{path}.{missing}".lstrip("."), "Required value"
    if error.validator == "format" and error.validator_value in ("int32", "int64"):
        path = "<nil>"  # The server's own code for these names no field.
    return path, f"Invalid value: {json.dumps(error.instance):.100}: {error.message:.200}"


def _plain(schema: Schema) -> Schema:
    """The same as JSON schema of draft 4, which knows neither nullable nor int-or-string."""
    found: Schema = {}
    for name, value in schema.items():
        if name == "properties":
            found[name] = {key: _plain(one) for key, one in value.items()}
        elif name in _JUNCTORS:
            found[name] = [_plain(one) for one in value]
        elif name in ("items", "not", "additionalProperties"):
            found[name] = _plain(value) if isinstance(value, dict) else value
        elif name not in _UNKNOWN_TO_JSON_SCHEMA and not name.startswith("x-"):
            found[name] = value
    types = ["integer", "string"] if schema.get(_EITHER) else [schema.get("type")]
    if types != [None]:
        found["type"] = [*types, "null"] if schema.get("nullable") else types
    return found


def _prune(
    schema: Schema, given: Any, path: str, dropped: list[str], *, whole: bool = False
) -> None:
    if isinstance(given, list):
        for index, one in enumerate(given):
            _prune(schema.get("items", {}), one, f"{path}[{index}]", dropped)
        return
    if not isinstance(given, dict):
        return
    more = schema.get("additionalProperties")
    for name in list(given):
        where = f"{path}.{name}".lstrip(".")
        inner = schema.get("properties", {}).get(name, more)
        if whole and name in _OF_ALL_OBJECTS:
            continue
        if isinstance(inner, dict):
            _prune(inner, given[name], where, dropped)
        elif not schema.get(_ANY) and more is not True:
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
            del given[name]
        if "default" in one and name not in given:
            given[name] = copy.deepcopy(one["default"])
        if name in given:
            _default(one, given[name])
    if isinstance(more, dict):
        for name in given.keys() - properties.keys():
            _default(more, given[name])


def _duplicates(schema: Schema, given: Any, path: str) -> Iterator[tuple[str, str]]:
    """Items that are there twice in a list that is a set or a map."""
    if isinstance(given, dict):
        more = schema.get("additionalProperties")
        for name, one in given.items():
            inner = schema.get("properties", {}).get(name, more)
            if isinstance(inner, dict):
                yield from _duplicates(inner, one, f"{path}.{name}".lstrip("."))
    if not isinstance(given, list):
        return
    seen: list[Any] = []
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys", [])
    for index, one in enumerate(given):
        yield from _duplicates(schema.get("items", {}), one, f"{path}[{index}]")
        same = {key: one.get(key) for key in keys} if isinstance(one, dict) else one
        if kind in ("set", "map") and same in seen:
            yield f"{path}[{index}]", f"Duplicate value: {json.dumps(same)}"
        seen.append(same)


# Definitions.


@dataclass(frozen=True)
class Defined:
    """A kind that a definition makes, in one version."""

    resource: Resource
    schema: Validated
    status: bool


def defined(given: Object) -> list[Defined]:
    """The kinds that are served for it."""
    spec = given["spec"]
    group, plural, kind = spec["group"], spec["names"]["plural"], spec["names"]["kind"]
    namespaced = spec.get("scope") == "Namespaced"
    return [
        Defined(
            Resource(group, version["name"], plural, kind, namespaced=namespaced),
            Validated(version["schema"]["openAPIV3Schema"]),
            "status" in version.get("subresources", {}),
        )
        for version in spec["versions"]
        if version.get("served")
    ]


def default(given: Object) -> None:
    """What the server adds to a definition, and leaves out of it since it says nothing."""
    spec = given.get("spec") or {}
    names = spec.get("names") or {}
    if names.get("kind"):
        names["singular"] = names.get("singular") or names["kind"].lower()
        names["listKind"] = names.get("listKind") or f"{names['kind']}List"
    spec.setdefault("conversion", {"strategy": "None"})
    for version in spec.get("versions") or []:
        for column in version.get("additionalPrinterColumns") or []:
            _drop_empty(column)
        _drop_empty(version, kept=("served", "storage", "schema"))
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if isinstance(schema, dict):
            _drop_empty_of_schema(schema)
    _drop_empty(names)
    _drop_empty(spec, kept=("versions",))


def _drop_empty(given: Object, kept: tuple[str, ...] = ()) -> None:
    for name in [one for one in given if one not in kept]:
        if given[name] in ("", [], {}, 0, None):  # 0 is False, too
            del given[name]


def _drop_empty_of_schema(schema: Schema) -> None:
    numbers = (name for name, value in schema.items() if type(value) is int)
    _drop_empty(schema, kept=("default", "items", "additionalProperties", "not", _ANY, *numbers))
    for _, inner in _below(schema, ""):
        _drop_empty_of_schema(inner)
    for name in _JUNCTORS:
        for inner in schema.get(name, []):
            _drop_empty_of_schema(inner)


def check(_: Key, new: Object, before: Object | None) -> Causes:
    """What is wrong with a definition."""
    spec = new.get("spec") or {}
    names, group, versions = spec.get("names") or {}, spec.get("group", ""), spec.get("versions")
    approved = (new["metadata"].get("annotations") or {}).get(_APPROVED, "")
    stored = ((before or {}).get("status") or {}).get("storedVersions") or []
    called = [one.get("name", "") for one in versions or []]
    old = (before or {}).get("spec") or spec
    good = {
        "spec.names": bool(names.get("plural") and names.get("kind")),
        "metadata.name": new["metadata"].get("name") == f"{names.get('plural')}.{group}",
        "spec.scope": spec.get("scope") in ("Cluster", "Namespaced"),
        "spec.group": (group, spec.get("scope")) == (old.get("group", ""), old.get("scope")),
        f"metadata.annotations[{_APPROVED}]": not _PROTECTED.search(group)
        or approved.startswith(("https://", "unapproved")),
        "spec.versions": sum(bool(one.get("storage")) for one in versions or []) == 1,
        "status.storedVersions": set(stored) <= set(called),
    }
    found = [(field, "Invalid value") for field, is_good in good.items() if not is_good]
    for version in versions or []:
        wrong = unstructural((version.get("schema") or {}).get("openAPIV3Schema"))
        found += [(one.partition(": ")[0], one.partition(": ")[2]) for one in wrong]
    return found


def establish(new: Object, before: Object | None, time: str) -> None:
    """What the server makes of a definition: its status."""
    spec = new["spec"]
    storage = next(one["name"] for one in spec["versions"] if one.get("storage"))
    if before is not None:
        stored = (new.get("status") or {}).get("storedVersions")
        if stored is not None and storage not in stored:
            stored.append(storage)
        return
    good = {"status": "True", "reason": "Test", "message": "", "lastTransitionTime": time}
    conditions = [{"type": type_, **good} for type_ in ("NamesAccepted", "Established")]
    new["status"] = {
        "acceptedNames": spec["names"],
        "storedVersions": [storage],
        "conditions": conditions,
    }


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
    if type_ not in _TYPES and (type_ or not (schema.get(_EITHER) or schema.get(_ANY))):
        yield f"{path}.type: Unsupported value: {type_}"
    for name in _FORBIDDEN:
        if schema.get(name):
            yield f"{path}.{name}: Forbidden: {name} is not supported"
    if schema.get("properties") and schema.get("additionalProperties"):
        yield f"{path}.additionalProperties: Forbidden: mutually exclusive with properties"
    if type_ == "array" and not isinstance(schema.get("items"), dict):
        yield f"{path}.items: Required value: must be specified"
    try:
        re.compile(schema.get("pattern", ""))
    except re.error as error:
        yield f"{path}.pattern: Invalid value: must be a valid regular expression: {error}"
    keys, items = schema.get("x-kubernetes-list-map-keys", []), schema.get("items") or {}
    if schema.get("x-kubernetes-list-type") == "map" and not keys:
        yield f"{path}.x-kubernetes-list-map-keys: Required value"
    for key in keys:
        known = items.get("properties", {}).get(key, {})
        if key not in items.get("required", []) and "default" not in known:
            yield f"{path}.items.properties[{key}].default: Required value"
    yield from _wrong_default(schema, path)
    for name in {*_JUNCTORS, "not"} & schema.keys():
        if not schema.get(_EITHER):  # where the real one allows conditions alone
            yield f"{path}.{name}: Forbidden: not checked by this double"
    for where, inner in _below(schema, path):
        yield from _structural(inner, where)


def _below(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    for name, one in schema.get("properties", {}).items():
        yield f"{path}.properties[{name}]", one
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield f"{path}.{name}", schema[name]


def _wrong_default(schema: Schema, path: str) -> Iterator[str]:
    if "default" in schema:
        validated = Validated({"type": "object", "properties": {"it": schema}})
        given = {"it": copy.deepcopy(schema["default"])}
        unknown = [f"unknown field {one}" for one in validated.complete(given)]
        for why in unknown + [why for _, why in validated.wrong(given)]:
            yield f"{path}.default: Invalid value: {why}"
