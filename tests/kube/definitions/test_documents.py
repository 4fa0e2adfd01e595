"""Objects as Koordinator's and our programs write them are kept whole; wrong ones are refused."""

from __future__ import annotations

from typing import Any

import pytest
from koord_kube.definitions.catalogue import DEFINITIONS

from tests.kube.definitions.documents import NEWER, UNKNOWN, WHOLE, WRONG, document
from tests.support.kube_schemas import Validated

Object = dict[str, Any]

SCHEMAS = {
    (f"{one['spec']['group']}/{version['name']}", one["spec"]["names"]["kind"]): Validated(
        version["schema"]["openAPIV3Schema"]
    )
    for one in DEFINITIONS
    for version in one["spec"]["versions"]
}


def checked(name: str, change: Object | None = None) -> tuple[list[str], list[str]]:
    """Fields that are not kept of an object, and those that are wrong in it."""
    given = document(name, change)
    schema = SCHEMAS[given["apiVersion"], given["kind"]]
    dropped = schema.complete(given)
    return dropped, [field for field, _ in schema.wrong(given)]


@pytest.mark.parametrize("name", WHOLE)
def test_objects_are_kept_whole(name: str) -> None:
    assert checked(name) == ([], [])


def test_a_profile_without_a_patch_as_clients_in_go_write_it() -> None:
    assert checked("profile", {"spec": {"patch": None}}) == ([], [])


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


@pytest.mark.parametrize(("name", "change", "field"), WRONG)
def test_what_is_wrong_is_refused(name: str, change: Object, field: str) -> None:
    assert checked(name, change) == ([], [field])


@pytest.mark.parametrize(("name", "change", "field"), UNKNOWN)
def test_what_is_unknown_is_not_kept(name: str, change: Object, field: str) -> None:
    assert checked(name, change) == ([field], [])
