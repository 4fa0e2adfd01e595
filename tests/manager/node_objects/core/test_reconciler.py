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
    kept,
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


def test_a_node_without_its_object_gets_one_that_goes_with_it():
    write = write_for(NODE_SLOS, NODE, None, {"a": 1})
    assert write == CreateObject(
        {
            "apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeSLO",
            "metadata": {"name": "n1", "ownerReferences": [OWNER]},
            "spec": {"a": 1},
        }
    )


def test_an_object_without_its_node_is_deleted_if_it_is_still_that_one():
    assert write_for(NODE_SLOS, None, there({"a": 1}), {}) == DeleteObject("uid-1")


def test_where_neither_is_there_and_where_all_is_well_nothing_is_written():
    assert write_for(NODE_SLOS, None, None, {}) is None
    assert write_for(NODE_SLOS, NODE, there({"a": {"b": 1}}), {"a": {"b": 1}}) is None


def test_only_what_differs_is_written():
    write = write_for(NODE_SLOS, NODE, there({"a": {"b": 1, "c": 2}, "d": 3}), {"a": {"b": 4}})
    assert write == PatchObject(
        {"metadata": {"uid": "uid-1"}, "spec": {"a": {"b": 4, "c": None}, "d": None}}
    )


def test_the_object_of_a_node_that_was_made_anew_gets_that_as_its_owner():
    another = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "uid-x"}
    old = OWNER | {"uid": "uid-before"}
    assert write_for(NODE_SLOS, NODE, there({}, old, another), {}) == PatchObject(
        {"metadata": {"uid": "uid-1", "ownerReferences": [another, OWNER]}}
    )


def test_an_object_that_nobody_owns_gets_its_owner():
    found = kept(b'{"metadata": {"uid": "uid-1"}}')
    assert write_for(NODE_SLOS, NODE, found, {}) == PatchObject(
        {"metadata": {"uid": "uid-1", "ownerReferences": [OWNER]}}
    )


@given(OBJECTS, OBJECTS)
def test_a_patch_leads_from_one_to_the_other_and_is_empty_where_they_are_the_same(before, after):
    patch = merge_patch(before, after)
    assert json.dumps(merged(before, patch), sort_keys=True) == json.dumps(after, sort_keys=True)
    assert merge_patch(after, after) == {}


def test_true_is_not_one():
    assert merge_patch({"a": True, "b": [1]}, {"a": 1, "b": [True]}) == {"a": 1, "b": [True]}


def test_of_objects_is_kept_what_counts():
    raw = {"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {"a": 1}, "status": {"b": 2}}
    found = kept(json.dumps(raw).encode())
    assert (found.uid, found.owners, found.decoded()) == ("u", (), {"a": 1})
    assert kept(b'{"spec": null}').decoded() == {}


@pytest.mark.parametrize("raw", [b"[]", b'{"metadata": 7}', b"{"])
def test_what_is_no_object_is_refused(raw: bytes):
    with pytest.raises(msgspec.MsgspecError):
        kept(raw)
