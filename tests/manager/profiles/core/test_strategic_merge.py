from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.profiles.core.strategic_merge import MergeList, MergeType, merged

Object = dict[str, Any]

# Of the things of a pod that behave differently, one each.
CONTAINER = MergeType(lists={"env": MergeList("name"), "ports": MergeList("containerPort")})
SPEC = MergeType(lists={"containers": MergeList("name", CONTAINER), "finalizers": MergeList()})
POD = MergeType(objects={"spec": SPEC})


def listed(*names: str, **more: object) -> list[Object]:
    return [{"name": name, **more} for name in names]


def of(containers: object) -> Object:
    return {"spec": {"containers": containers}}


CASES: dict[str, tuple[Object, Object, Object]] = {
    "objects merge": (
        {"a": {"x": 1, "y": {"z": 1}}},
        {"a": {"y": {"w": 2}}, "b": 3},
        {"a": {"x": 1, "y": {"z": 1, "w": 2}}, "b": 3},
    ),
    "null deletes": (
        {"a": 1, "b": {"c": 1, "d": 2}},
        {"a": None, "b": {"c": None}},
        {"b": {"d": 2}},
    ),
    "null of a new object is nothing": ({}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    "null deletes a list that merges": (of(listed("a")), of(None), {"spec": {}}),
    "a list without a key is replaced": ({"t": [1, 2]}, {"t": [3]}, {"t": [3]}),
    "what is of another kind is replaced": ({"a": [1]}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    "an element of the same key merges": (
        of([{"name": "a", "image": "1", "env": listed("X", value="1")}]),
        of([{"name": "a", "image": "2", "env": listed("Y", value="2")}]),
        of(
            [{"name": "a", "image": "2", "env": [*listed("Y", value="2"), *listed("X", value="1")]}]
        ),
    ),
    # As Kubernetes' own documentation shows it for a second container.
    "new elements come first": (of(listed("a", "b")), of(listed("c")), of(listed("c", "a", "b"))),
    "one that is there stays in its place": (
        of(listed("a", "b", "c")),
        of(listed("b", image="1")),
        of([*listed("a"), *listed("b", image="1"), *listed("c")]),
    ),
    "elements are ordered as reported": (
        of(listed("a", "b", "c")),
        {"spec": {"$setElementOrder/containers": listed("c", "b", "a")}},
        of(listed("c", "b", "a")),
    ),
    "and others stay among them": (
        of(listed("a", "x", "b")),
        {"spec": {"$setElementOrder/containers": listed("a", "n", "b"), "containers": listed("n")}},
        of(listed("a", "n", "x", "b")),
    ),
    "an element is deleted": (
        of(listed("a", "b")),
        of([{"name": "a", "$patch": "delete"}]),
        of(listed("b")),
    ),
    "deleting what is not there is nothing": (
        of(listed("a")),
        of([{"name": "z", "$patch": "delete"}]),
        of(listed("a")),
    ),
    "a list is replaced": (
        of(listed("a", "b")),
        of([*listed("c"), {"$patch": "replace"}]),
        of(listed("c")),
    ),
    "an object is replaced": (
        {"a": {"x": 1, "y": 2}},
        {"a": {"$patch": "replace", "z": 3}},
        {"a": {"z": 3}},
    ),
    "an object is emptied": ({"a": {"x": 1}}, {"a": {"$patch": "delete"}}, {"a": {}}),
    "an object is merged as said": ({"a": 1}, {"$patch": "merge", "b": 2}, {"a": 1, "b": 2}),
    "only some keys are retained": (
        {"a": {"hostPath": {}, "name": "v"}},
        {"a": {"$retainKeys": ["name", "emptyDir"], "emptyDir": {}}},
        {"a": {"name": "v", "emptyDir": {}}},
    ),
    "plain values are added once": (
        {"spec": {"finalizers": ["a", "b"]}},
        {"spec": {"finalizers": ["b", "c"]}},
        {"spec": {"finalizers": ["a", "b", "c"]}},
    ),
    "plain values are deleted": (
        {"spec": {"finalizers": ["a", "b"]}},
        {"spec": {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}},
        {"spec": {"finalizers": ["b"]}},
    ),
    "of two with the same key the first merges, and both stay": (
        of(
            [{"name": "a", "ports": [{"containerPort": 53, "protocol": p} for p in ("TCP", "UDP")]}]
        ),
        of([{"name": "a", "ports": [{"containerPort": 53, "name": "dns"}]}]),
        of(
            [
                {
                    "name": "a",
                    "ports": [
                        {"containerPort": 53, "protocol": "TCP", "name": "dns"},
                        {"containerPort": 53, "protocol": "UDP"},
                    ],
                }
            ]
        ),
    ),
}


@pytest.mark.parametrize(("before", "patch", "after"), CASES.values(), ids=CASES.keys())
def test_what_a_patch_does(before: Object, patch: Object, after: Object) -> None:
    given_before, given_patch = copy.deepcopy(before), copy.deepcopy(patch)
    assert merged(before, patch, POD) == after
    assert (before, patch) == (given_before, given_patch)


@pytest.mark.parametrize(("before", "patch", "after"), CASES.values(), ids=CASES.keys())
def test_a_patch_applied_again_changes_nothing(
    before: Object, patch: Object, after: Object
) -> None:
    assert merged(after, patch, POD) == after


@pytest.mark.parametrize(
    ("before", "patch", "line"),
    [
        ({}, {"$patch": "remove"}, 'patch.$patch is "remove"; expected merge or replace or delete'),
        ({}, of([{"image": "x"}]), "patch.spec.containers has an object; expected each element"),
        ({}, of(["a"]), 'patch.spec.containers has "a"; expected each element with its name'),
        ({}, of({"name": "a"}), "patch.spec.containers is an object; expected a list"),
        (of(["a"]), of(listed("b")), 'patch.spec.containers has "a"; expected each element'),
        ({}, {"spec": {"finalizers": [{}]}}, "patch.spec.finalizers has an object; expected plain"),
        ({}, {"spec": {"$retainKeys": ["a"], "b": 1}}, 'patch.spec.$retainKeys lacks "b"'),
        ({}, {"spec": {"$retainKeys": "a"}}, 'patch.spec.$retainKeys is "a"; expected a list'),
        ({}, {"spec": {"$setElementOrder/t": []}}, 'patch.spec orders or deletes of "t", a list'),
        ({}, of([{"name": "a", "$patch": 1}]), "patch.spec.containers.$patch is 1; expected merge"),
    ],
)
def test_what_does_not_fit_is_said(before: Object, patch: Object, line: str) -> None:
    with pytest.raises(ValueError, match=r"^patch") as raised:
        merged(before, patch, POD)
    assert str(raised.value).startswith(line)


NAMES = st.lists(st.sampled_from("abcdef"), unique=True)


@given(NAMES, NAMES)
def test_elements_are_all_there_once_and_in_both_orders(had: list[str], wanted: list[str]) -> None:
    after = merged(of(listed(*had)), of(listed(*wanted)), POD)["spec"]["containers"]
    found = [one["name"] for one in after]
    assert sorted(found) == sorted({*had, *wanted})
    assert [name for name in found if name in wanted] == wanted
    assert [name for name in found if name not in wanted] == [n for n in had if n not in wanted]
