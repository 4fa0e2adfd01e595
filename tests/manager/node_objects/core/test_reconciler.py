"""What is written of the one object that each Node has."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.protocol.resources import NODE_SLOS
from koord_manager.node_objects.core.nodes import ClusterNode
from koord_manager.node_objects.core.reconciler import (
    CreateObject,
    DeleteObject,
    ExistingObject,
    PatchObject,
    decode_object,
    merge_patch,
    write_for,
)

from tests.support.merge_patch import merged

NODE = ClusterNode("n1", "uid-n1")
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-n1"}
SPECS = st.recursive(
    st.booleans() | st.integers(0, 2) | st.floats(0, 2) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), SPECS, max_size=4)


def there(spec: dict[str, Any], *owners: dict[str, Any]) -> ExistingObject:
    return ExistingObject("uid-1", owners or (OWNER,), json.dumps(spec).encode())


CREATED = {
    "apiVersion": "slo.koordinator.sh/v1alpha1",
    "kind": "NodeSLO",
    "metadata": {"name": "n1", "ownerReferences": [OWNER]},
    "spec": {"a": 1},
}
ANOTHER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "uid-x"}


def patched(**change: Any) -> PatchObject:
    metadata = {"uid": "uid-1", **change.pop("metadata", {})}
    return PatchObject({"metadata": metadata, **change})


@pytest.mark.parametrize(
    ("node", "found", "spec", "write"),
    [
        (NODE, None, {"a": 1}, CreateObject(CREATED)),
        # If it is still that one.
        (None, there({"a": 1}), {}, DeleteObject("uid-1")),
        (None, None, {}, None),
        (NODE, there({"a": {"b": 1}}), {"a": {"b": 1}}, None),
        (
            NODE,
            there({"a": {"b": 1, "c": 2}, "d": 3}),
            {"a": {"b": 4}},
            patched(spec={"a": {"b": 4, "c": None}, "d": None}),
        ),
        # The Node was made anew; others' owners stay.
        (
            NODE,
            there({}, OWNER | {"uid": "uid-before"}, ANOTHER),
            {},
            patched(metadata={"ownerReferences": [ANOTHER, OWNER]}),
        ),
        (
            NODE,
            decode_object(b'{"metadata": {"uid": "uid-1"}}'),
            {},
            patched(metadata={"ownerReferences": [OWNER]}),
        ),
    ],
)
def test_what_is_written(node: Any, found: Any, spec: dict[str, Any], write: Any):
    assert write_for(NODE_SLOS, node, found, spec) == write


@given(OBJECTS, OBJECTS)
def test_a_patch_leads_from_one_to_the_other_and_is_empty_where_they_are_the_same(before, after):
    patch = merge_patch(before, after)
    assert json.dumps(merged(before, patch), sort_keys=True) == json.dumps(after, sort_keys=True)
    assert merge_patch(after, after) == {}


def test_true_is_not_one():
    assert merge_patch({"a": True, "b": [1]}, {"a": 1, "b": [True]}) == {"a": 1, "b": [True]}


def test_of_objects_is_kept_what_counts():
    raw = {"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {"a": 1}, "status": {"b": 2}}
    found = decode_object(json.dumps(raw).encode())
    assert (found.uid, found.owners, found.decoded()) == ("u", (), {"a": 1})
    assert decode_object(b'{"spec": null}').decoded() == {}


@pytest.mark.parametrize("raw", [b"[]", b'{"metadata": 7}', b"{"])
def test_what_is_no_object_is_refused(raw: bytes):
    with pytest.raises(msgspec.MsgspecError):
        decode_object(raw)
