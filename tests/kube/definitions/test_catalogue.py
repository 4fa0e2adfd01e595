"""All definitions: what the API server asks of them, and what people read of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from koord_kube.definitions.catalogue import DEFINITIONS
from koord_kube.protocol import resources
from koord_kube.protocol.resources import DEFINITIONS as KIND
from koord_kube.protocol.resources import Resource
from koord_model import keys

from tests.support.kube_api import KubeApi

Object = dict[str, Any]

VERSIONS = [
    pytest.param(version, id=f"{one['spec']['names']['kind']}-{version['name']}")
    for one in DEFINITIONS
    for version in one["spec"]["versions"]
]


def schema_of(version: Object) -> Object:
    found: Object = version["schema"]["openAPIV3Schema"]
    return found


def nodes(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    """The schema's fields, and those of what is in lists and maps, by their path."""
    for name, one in schema.get("properties", {}).items():
        yield f"{path}.{name}", one
        yield from nodes(one, f"{path}.{name}")
    for inside in ("items", "additionalProperties"):
        if inside in schema:
            yield from nodes(schema[inside], f"{path}[]")


@pytest.mark.parametrize("version", VERSIONS)
def test_each_field_says_what_it_is(version: Object) -> None:
    silent = [path for path, one in nodes(schema_of(version)) if not one.get("description")]
    assert silent == [".metadata"]


@pytest.mark.parametrize("version", VERSIONS)
def test_bounds_and_words_are_possible(version: Object) -> None:
    for path, one in nodes(schema_of(version)):
        assert one.get("minimum", 0) <= one.get("maximum", 1 << 63), path
        assert len(set(one.get("enum", ()))) == len(one.get("enum", ())), path
        assert set(one.get("required", ())) <= one.get("properties", {}).keys(), path


LABELS = {one for name, one in vars(keys).items() if name.startswith("LABEL_")}


def unescaped(path: str) -> str:
    """The label that a path names: none of its dots is one of the path."""
    parts = path.removeprefix(".metadata.labels.").split("\\.")
    assert all("." not in part for part in parts)
    return ".".join(parts)


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_show_fields_that_are_there(version: Object) -> None:
    known = dict(nodes(schema_of(version)))
    for column in version["additionalPrinterColumns"]:
        path, _, _ = column["jsonPath"].partition("[")
        if path.startswith(".metadata.labels."):
            assert unescaped(path) in LABELS
            continue
        above = path.rpartition(".")[0]
        anything_below = "additionalProperties" in known.get(above, {})
        assert path in known or anything_below or path == ".metadata.creationTimestamp"


async def test_the_server_takes_them_and_then_has_the_kinds_that_we_ask_for() -> None:
    async with KubeApi() as api:
        for one in DEFINITIONS:
            api.put(KIND, one)
        groups = {one["spec"]["group"] for one in DEFINITIONS}
        kinds = {one["spec"]["names"]["kind"] for one in DEFINITIONS}
        ours = [
            one
            for one in vars(resources).values()
            if isinstance(one, Resource) and one.group in groups and one.kind in kinds
        ]
        assert {one.kind for one in ours} == kinds
        assert set(ours) <= api.installed
