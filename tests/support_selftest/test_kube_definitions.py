"""A definition makes its kinds served, and its schema holds for their objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from koord_kube.resources import DEFINITIONS, NODE_METRICS
from kubernetes.aio import client

from tests.support.kube_api import KubeApi
from tests.support.kube_refusal import Refused
from tests.support_selftest.kube_clients import ApiException

THINGS = ("example.org", "v1", "things")

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
            "items": {"type": "object", "properties": {"key": {"type": "string"}}},
        },
    },
}


def definition(spec: Any = SPEC, **more: Any) -> Any:
    schema = {
        "type": "object",
        "properties": {"spec": spec, "status": {"type": "object", "properties": {}}},
    }
    version = {"name": "v1", "served": True, "storage": True}
    version |= {"schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing", "singular": "thing"},
            "versions": [version],
            **more,
        },
    }


def thing(**spec: Any) -> Any:
    head = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "t"}}
    return {**head, "spec": {"size": 1, **spec}}


async def refused(call: Any) -> int:
    with pytest.raises(ApiException) as raised:
        await call
    return int(raised.value.status)


async def test_its_kinds_come_and_go(
    api: KubeApi, api_client: client.ApiClient, custom: client.CustomObjectsApi
) -> None:
    definitions = client.ApiextensionsV1Api(api_client)
    assert await refused(custom.list_cluster_custom_object(*THINGS)) == 404
    made = await definitions.create_custom_resource_definition(definition())
    states = {one.type: one.status for one in made.status.conditions}
    assert states == {"NamesAccepted": "True", "Established": "True"}
    await custom.create_cluster_custom_object(*THINGS, thing())
    found = await custom.list_cluster_custom_object(*THINGS)
    assert [one["metadata"]["name"] for one in found["items"]] == ["t"]
    resources = await custom.get_api_resources("example.org", "v1")
    assert [one.name for one in resources.resources] == ["things", "things/status"]
    await definitions.delete_custom_resource_definition("things.example.org")
    assert await refused(custom.list_cluster_custom_object(*THINGS)) == 404
    assert api.objects == {}


async def test_pruning_and_defaults(api: KubeApi, custom: client.CustomObjectsApi) -> None:
    api.put(DEFINITIONS, definition())
    given = thing(unknown=1, anything={"x": 1}, more=[{"key": "a", "other": 1}], mode=None)
    made = await custom.create_cluster_custom_object_with_http_info(*THINGS, given)
    assert made.data["spec"] == {
        "size": 1, "mode": "a", "anything": {"x": 1}, "more": [{"key": "a"}],
    }  # fmt: skip
    assert "unknown field" in made.headers["Warning"]


async def test_strict_clients_are_told(api: KubeApi, custom: client.CustomObjectsApi) -> None:
    api.put(DEFINITIONS, definition())
    call = custom.create_cluster_custom_object(*THINGS, thing(unknown=1), field_validation="Strict")
    assert await refused(call) == 400


@pytest.mark.parametrize(
    "spec",
    [
        {"size": 0}, {"size": 10}, {"size": "1"}, {"size": None}, {"size": 1.5}, {"mode": "c"},
        {"share": True}, {"share": "x%"}, {"when": "today"}, {"labels": {"a": 1}}, {"more": {}},
        {"more": [{"key": "a"}, {"key": "a"}]}, {"anything": []},
    ],
)  # fmt: skip
async def test_what_is_not_valid(api: KubeApi, custom: client.CustomObjectsApi, spec: Any) -> None:
    api.put(DEFINITIONS, definition())
    assert await refused(custom.create_cluster_custom_object(*THINGS, thing(**spec))) == 422
    api.put(DEFINITIONS, definition())
    await custom.create_cluster_custom_object(*THINGS, thing())
    kind = "application/merge-patch+json"
    body = {"spec": {"size": None}}
    call = custom.patch_cluster_custom_object(*THINGS, "t", body, _content_type=kind)
    assert await refused(call) == 422


@pytest.mark.parametrize(
    "spec",
    [{"share": 5}, {"share": "5%"}, {"name": None}, {"when": "2026-01-01T00:00:00Z"}],
)
async def test_what_is_valid(api: KubeApi, custom: client.CustomObjectsApi, spec: Any) -> None:
    api.put(DEFINITIONS, definition())
    made = await custom.create_cluster_custom_object(*THINGS, thing(**spec))
    assert made["spec"] == {"size": 1, "mode": "a", **spec}


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"properties": {}},
        {"type": "array"},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": {"type": "text"}}},
        {"type": "object", "additionalProperties": False},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        {"type": "string", "pattern": "("},
        {"type": "string", "default": 1},
        {"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]},
        {"type": "string", "anyOf": [{"type": "string"}]},
        {"$ref": "#/definitions/a", "type": "object"},
        {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
        {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
        {"type": "integer", "x-kubernetes-int-or-string": True},
    ],
)
def test_schemas_that_are_not_structural(api: KubeApi, wrong: Any) -> None:
    with pytest.raises(Refused) as raised:
        api.put(DEFINITIONS, definition(wrong))
    assert raised.value.status == 422


@pytest.mark.parametrize(
    "more",
    [
        {"scope": "All"},
        {"group": "example.com"},
        {"names": {"plural": "things"}},
        {"names": {"plural": "Things", "kind": "Thing"}},
        {"preserveUnknownFields": True},
        {"versions": []},
    ],
)
def test_definitions_that_are_wrong(api: KubeApi, more: Any) -> None:
    with pytest.raises(Refused):
        api.put(DEFINITIONS, definition(**more))


def test_protected_groups_need_an_approval(api: KubeApi) -> None:
    given = definition(group="topology.node.k8s.io")
    given["metadata"]["name"] = "things.topology.node.k8s.io"
    with pytest.raises(Refused, match="protected groups"):
        api.put(DEFINITIONS, given)
    approved = copy.deepcopy(given)
    said = {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"}
    approved["metadata"]["annotations"] = said
    assert api.put(DEFINITIONS, approved)["spec"]["group"] == "topology.node.k8s.io"
