"""The documents that every server is held to (``test_served``) have each field there is."""

from __future__ import annotations

from typing import Any

from koord_kube.definitions.catalogue import DEFINITIONS

from tests.kube.definitions.documents import NEWER, WHOLE

Object = dict[str, Any]


def test_each_field_of_each_definition_is_in_one_of_them() -> None:
    """So a field that is spelled otherwise than Koordinator spells it is noticed."""
    for name, (version, kind, fields) in WHOLE.items():
        definition = next(one for one in DEFINITIONS if one["spec"]["names"]["kind"] == kind)
        (schema,) = [
            one["schema"]["openAPIV3Schema"]
            for one in definition["spec"]["versions"]
            if version.endswith(f"/{one['name']}")
        ]
        there = set(_paths(fields))
        optional = {"topologyPolicies"} if version == NEWER else set()
        missing = set(_fields(schema)) - there - optional
        assert not {one for one in missing if not _repeated(one)}, name


def _paths(given: Any, path: str = "") -> Any:
    if isinstance(given, list):
        for one in given:
            yield from _paths(one, path)
    elif isinstance(given, dict):
        for key, value in given.items():
            at = f"{path}.{key}".lstrip(".")
            yield at
            yield from _paths(value, at)


def _fields(schema: Object, path: str = "") -> Any:
    for key, value in schema.get("properties", {}).items():
        at = f"{path}.{key}".lstrip(".")
        if at.partition(".")[0] not in ("apiVersion", "kind", "metadata"):
            yield at
            yield from _fields(value, at)
    if "items" in schema:
        yield from _fields(schema["items"], path)


def _repeated(path: str) -> bool:
    """Parts that one function gives to many places; one of these is enough."""
    parts = ("devices.", "Usage.", "usage.", "resource.", "ector.match", "observedGeneration")
    return any(part in path for part in parts) or path.endswith(("devices", "resources"))
