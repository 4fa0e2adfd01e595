from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_serving.admission.core.json_patch import patch

# Names that have to be escaped, and values that are equal in Python but not in JSON.
NAMES = st.sampled_from(("a", "b", "a/b", "a~b", "~1", "~01", "", "-", "0"))
TREES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from((0.0, 1.0, "", "x")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(NAMES, TREES, max_size=4)


def spelled(tree: Any) -> str:
    """With types, as 1, 1.0 and true are equal in Python; keys in one order."""
    if isinstance(tree, dict):
        return repr({key: spelled(tree[key]) for key in sorted(tree)})
    if isinstance(tree, list):
        return repr([spelled(one) for one in tree])
    return repr(tree)


@given(OBJECTS, OBJECTS)
def test_a_patch_makes_the_one_of_the_other(before: Any, after: Any) -> None:
    kept = copy.deepcopy((before, after))
    operations = patch(before, after)
    # Our reader is another's: it knows nothing of how the patch was made.
    made = jsonpatch.apply_patch(copy.deepcopy(before), copy.deepcopy(operations))
    assert spelled(made) == spelled(after)
    assert (before, after) == kept


@given(OBJECTS)
def test_what_is_equal_needs_no_patch(tree: Any) -> None:
    assert patch(tree, copy.deepcopy(tree)) == []


@pytest.mark.parametrize(
    ("before", "after", "operations"),
    [
        ({}, {"a/b": 1}, [{"op": "add", "path": "/a~1b", "value": 1}]),
        ({"a~b": 1}, {}, [{"op": "remove", "path": "/a~0b"}]),
        ({"~1": 1}, {"~1": 2}, [{"op": "replace", "path": "/~01", "value": 2}]),
        ({"a": None}, {"a": {}}, [{"op": "replace", "path": "/a", "value": {}}]),
        ({"a": 1 << 70}, {"a": 1 << 70}, []),
        ({"a": True}, {"a": 1}, [{"op": "replace", "path": "/a", "value": 1}]),
        ({"a": [1]}, {"a": [1, 2]}, [{"op": "add", "path": "/a/-", "value": 2}]),
        (
            {"a": [1, 2, 3]},
            {"a": [1]},
            [{"op": "remove", "path": "/a/2"}, {"op": "remove", "path": "/a/1"}],
        ),
        (
            {"a": [{"b": 1}, {"c": 1}]},
            {"a": [{"b": 2}, {"c": 1}]},
            [{"op": "replace", "path": "/a/0/b", "value": 2}],
        ),
    ],
)
def test_how_changes_are_written(before: Any, after: Any, operations: list[dict[str, Any]]) -> None:
    assert patch(before, after) == operations
