"""A definition makes its kinds served, and its schema holds for their objects.

Whoever gives another ``ask`` holds another server to it.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from koord_kube.protocol.resources import DEFINITIONS, NODE_METRICS

from tests.support.kube_api import KubeApi
from tests.support.kube_asking import Asking
from tests.support.kube_refusal import Refused
from tests.support.processes import PATIENCE

__all__ = ["TestDefinitions", "TestSchemas"]

THINGS = "/apis/example.org/v1/things"

SPEC: Any = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9},
        "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "share": {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^[0-9]+%?$",
        },
        "name": {"type": "string", "nullable": True},
        "when": {"type": "string", "format": "date-time"},
        "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "more": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": {
                "type": "object",
                "required": ["key"],
                "properties": {"key": {"type": "string"}},
            },
        },
    },
}


def definition(spec: Any = SPEC, *, plural: str = "things", **more: Any) -> Any:
    schema = {
        "type": "object",
        "properties": {"spec": spec, "status": {"type": "object"}},
    }
    version = {"name": "v1", "served": True, "storage": True}
    version |= {"schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    singular = plural.removesuffix("s")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Cluster",
            "names": {"plural": plural, "kind": singular.capitalize(), "singular": singular},
            "versions": [version],
            **more,
        },
    }


def thing(**spec: Any) -> Any:
    head = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "t"}}
    return {**head, "spec": {"size": 1, **spec}}


EMPTY: Any = {
    "type": "object",
    "description": "",
    "required": [],
    "properties": {
        "none": {"type": "object", "properties": {}, "nullable": False},
        "kept": {"type": "string", "default": "", "enum": ["", "b"]},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {}}},
    },
}
"""A schema that says much that is nothing."""


class TestDefinitions:
    async def test_its_kinds_come_and_go(self, ask: Asking) -> None:
        path, where = "/apis/example.org/v1/goers", DEFINITIONS.path("goers.example.org")
        assert (await ask("GET", path)).status == 404
        await ask.define(definition(plural="goers"))
        made = thing() | {"kind": "Goer"}
        assert (await ask("POST", path, made)).status == 201
        resources = (await ask("GET", "/apis/example.org/v1")).said["resources"]
        assert {"goers", "goers/status"} <= {one["name"] for one in resources}
        assert (await ask("DELETE", where)).status == 200
        async with asyncio.timeout(PATIENCE):
            while (await ask("GET", path)).status != 404:
                await asyncio.sleep(0.05)

    async def test_what_the_server_says_of_one(self, ask: Asking) -> None:
        await ask.define(definition())
        async with asyncio.timeout(PATIENCE):
            while len(conditions := await _conditions(ask)) < 2:
                await asyncio.sleep(0.05)
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
        status = (await ask.get(DEFINITIONS, "things.example.org"))["status"]
        assert status["storedVersions"] == ["v1"]
        assert status["acceptedNames"]["listKind"] == "ThingList"

    async def test_what_says_nothing_is_not_kept(self, ask: Asking) -> None:
        given = definition(EMPTY, plural="drafts")
        given["spec"]["names"]["shortNames"] = []
        column = {"name": "a", "type": "string", "jsonPath": ".spec.kept"}
        shown = column | {"priority": 0, "description": "", "format": ""}
        given["spec"]["versions"][0]["additionalPrinterColumns"] = [shown]
        made = await ask("POST", DEFINITIONS.path(), given, dryRun="All")
        spec = made.said["spec"]
        assert spec["names"] == {
            "plural": "drafts", "kind": "Draft", "singular": "draft", "listKind": "DraftList",
        }  # fmt: skip
        assert spec["conversion"] == {"strategy": "None"}
        version = spec["versions"][0]
        assert version["additionalPrinterColumns"] == [column]
        assert version["schema"]["openAPIV3Schema"]["properties"]["spec"] == {
            "type": "object",
            "properties": {
                "none": {"type": "object"},
                "kept": {"type": "string", "default": "", "enum": ["", "b"]},
                "map": {"type": "object", "additionalProperties": {"type": "object"}},
            },
        }

    async def test_a_version_that_was_stored_has_to_stay(self, ask: Asking) -> None:
        where = DEFINITIONS.path("stores.example.org")
        await ask.define(definition(plural="stores"))
        old = await ask.get(DEFINITIONS, "stores.example.org")
        first = old["spec"]["versions"][0]
        both = [first | {"storage": False}, first | {"name": "v2"}]
        change = await ask("PATCH", where, {"spec": {"versions": both}})
        assert change.said["status"]["storedVersions"] == ["v1", "v2"]
        refused = await ask("PATCH", where, {"spec": {"versions": both[1:]}})
        assert (refused.refusal, refused.causes) == ((422, "Invalid"), ["status.storedVersions[0]"])
        refused = await ask("PATCH", where, {"spec": {"scope": "Namespaced"}})
        assert (refused.refusal, refused.causes) == ((422, "Invalid"), ["spec.scope"])

    @pytest.mark.parametrize(
        ("wrong", "field"),
        [
            ({"properties": {}}, "type"),
            ({"type": "array"}, "items"),
            ({"type": "object", "properties": {"a": {}}}, "properties[a].type"),
            ({"type": "object", "properties": {"a": {"type": "text"}}}, "properties[a].type"),
            (
                {
                    "type": "object",
                    "properties": {"a": {"type": "string"}},
                    "additionalProperties": {"type": "string"},
                },
                "additionalProperties",
            ),
            ({"type": "string", "pattern": "("}, "pattern"),
            ({"type": "string", "default": 1}, "default"),
            ({"type": "string", "anyOf": [{"type": "string"}]}, "anyOf[0].type"),
            ({"$ref": "#/definitions/a", "type": "object"}, "$ref"),
            (
                {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
                "uniqueItems",
            ),
            (
                {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
                "x-kubernetes-list-map-keys",
            ),
            (
                {
                    "type": "array",
                    "items": {"type": "object", "properties": {"key": {"type": "string"}}},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["key"],
                },
                "items.properties[key].default",
            ),
        ],
    )
    async def test_schemas_that_are_not_structural(
        self, ask: Asking, wrong: Any, field: str
    ) -> None:
        refused = await ask("POST", DEFINITIONS.path(), definition(wrong), dryRun="All")
        assert refused.refusal == (422, "Invalid")
        assert refused.causes == [f"spec.validation.openAPIV3Schema.properties[spec].{field}"]

    @pytest.mark.parametrize(
        ("more", "field"),
        [
            ({"scope": "All"}, "spec.scope"),
            ({"group": "example.com"}, "metadata.name"),
            ({"names": {"plural": "things"}}, "spec.names.kind"),
            ({"names": {"plural": "Things", "kind": "Thing"}}, "spec.names.plural"),
            ({"preserveUnknownFields": True}, "spec.preserveUnknownFields"),
            ({"versions": []}, "spec.versions"),
        ],
    )
    async def test_definitions_that_are_wrong(self, ask: Asking, more: Any, field: str) -> None:
        refused = await ask("POST", DEFINITIONS.path(), definition(**more), dryRun="All")
        assert refused.refusal == (422, "Invalid")
        assert field in refused.causes

    async def test_protected_groups_need_an_approval(self, ask: Asking) -> None:
        given = definition(group="topology.node.k8s.io")
        given["metadata"]["name"] = "things.topology.node.k8s.io"
        refused = await ask("POST", DEFINITIONS.path(), given, dryRun="All")
        assert refused.refusal == (422, "Invalid")
        assert refused.causes == ["metadata.annotations[api-approved.kubernetes.io]"]
        approved = copy.deepcopy(given)
        url = "https://github.com/kubernetes/enhancements/pull/1870"
        approved["metadata"]["annotations"] = {"api-approved.kubernetes.io": url}
        made = await ask("POST", DEFINITIONS.path(), approved, dryRun="All")
        assert made.status == 201


async def _conditions(ask: Asking) -> dict[str, str]:
    status = (await ask.get(DEFINITIONS, "things.example.org")).get("status") or {}
    return {one["type"]: one["status"] for one in status.get("conditions") or []}


class TestSchemas:
    @pytest.fixture(autouse=True)
    async def _defined(self, ask: Asking) -> None:
        await ask.define(definition())

    async def test_pruning_and_defaults(self, ask: Asking) -> None:
        given = thing(unknown=1, anything={"x": 1}, more=[{"key": "a", "other": 1}], mode=None)
        made = await ask("POST", THINGS, given)
        assert made.said["spec"] == {
            "size": 1, "mode": "a", "anything": {"x": 1}, "more": [{"key": "a"}],
        }  # fmt: skip
        assert "unknown field" in made.headers["Warning"]

    async def test_strict_clients_are_told(self, ask: Asking) -> None:
        refused = await ask("POST", THINGS, thing(unknown=1), fieldValidation="Strict")
        assert refused.refusal == (400, "BadRequest")
        assert refused.message == (
            'Thing in version "v1" cannot be handled as a Thing: strict decoding error: '
            'unknown field "spec.unknown"'
        )

    @pytest.mark.parametrize(
        ("spec", "field", "reason"),
        [
            ({"size": 0}, "spec.size", "FieldValueInvalid"),
            ({"size": 10}, "spec.size", "FieldValueInvalid"),
            ({"size": "1"}, "spec.size", "FieldValueTypeInvalid"),
            ({"size": None}, "spec.size", "FieldValueRequired"),
            ({"size": 1.5}, "spec.size", "FieldValueTypeInvalid"),
            ({"mode": "c"}, "spec.mode", "FieldValueNotSupported"),
            ({"share": True}, "spec.share", "FieldValueTypeInvalid"),
            ({"share": "x%"}, "spec.share", "FieldValueInvalid"),
            ({"when": "today"}, "spec.when", "FieldValueTypeInvalid"),
            ({"labels": {"a": 1}}, "spec.labels.a", "FieldValueTypeInvalid"),
            ({"more": {}}, "spec.more", "FieldValueTypeInvalid"),
            ({"more": [{"key": "a"}, {"key": "a"}]}, "spec.more[1]", "FieldValueDuplicate"),
            ({"anything": []}, "spec.anything", "FieldValueTypeInvalid"),
        ],
    )
    async def test_what_is_not_valid(self, ask: Asking, spec: Any, field: str, reason: str) -> None:
        refused = await ask("POST", THINGS, thing(**spec))
        assert refused.refusal == (422, "Invalid")
        first = refused.said["details"]["causes"][0]
        assert (first["field"], first["reason"]) == (field, reason)

    async def test_what_a_patch_makes_invalid(self, ask: Asking) -> None:
        await ask("POST", THINGS, thing())
        refused = await ask("PATCH", f"{THINGS}/t", {"spec": {"size": None}})
        assert (refused.refusal, refused.causes) == ((422, "Invalid"), ["spec.size"])

    @pytest.mark.parametrize(
        "spec",
        [{"share": 5}, {"share": "5%"}, {"name": None}, {"when": "2026-01-01T00:00:00Z"}],
    )
    async def test_what_is_valid(self, ask: Asking, spec: Any) -> None:
        made = await ask("POST", THINGS, thing(**spec))
        assert made.said["spec"] == {"size": 1, "mode": "a", **spec}


def test_a_test_is_held_to_it_too(api: KubeApi) -> None:
    api.put(DEFINITIONS, definition())
    [resource] = [one for one in api.installed if one.plural == "things"]
    with pytest.raises(Refused):
        api.put(resource, thing(size=0))


def test_it_takes_the_place_of_a_kind_without_one(api: KubeApi) -> None:
    given = definition()
    given["metadata"]["name"] = "nodemetrics.slo.koordinator.sh"
    names = {"plural": "nodemetrics", "kind": "NodeMetric"}
    given["spec"] |= {"group": "slo.koordinator.sh", "names": names}
    given["spec"]["versions"][0]["name"] = "v1alpha1"
    api.put(DEFINITIONS, given)
    with pytest.raises(Refused):
        api.put(NODE_METRICS, {"metadata": {"name": "n"}, "spec": {}})
