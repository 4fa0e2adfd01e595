from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.noderesource.core.desired_node import DesiredNode
from koord_manager.noderesource.core.node_patch import NodePatches, needs_sync, patches
from koord_model.keys import BATCH_CPU, BATCH_MEMORY, GPU_MEMORY

NODE: dict[str, Any] = {
    "metadata": {"name": "n1", "labels": {"pool": "a"}, "annotations": {"note": "old"}},
    "status": {
        "capacity": {"cpu": "8", "memory": "16Gi", BATCH_CPU: "4k"},
        "allocatable": {"cpu": "7900m", "memory": "15Gi", BATCH_CPU: "4k"},
    },
}


def merged(document: Any, patch: Any) -> Any:
    """The document with a JSON merge patch applied (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def test_amounts_go_into_capacity_and_allocatable_as_text() -> None:
    desired = DesiredNode(resources={BATCH_CPU: 5000, BATCH_MEMORY: 1 << 30})
    both = {BATCH_CPU: "5000", BATCH_MEMORY: "1073741824"}
    assert patches(NODE, [desired]) == NodePatches(
        status={"status": {"capacity": both, "allocatable": both}}
    )


def test_labels_and_annotations_go_into_the_metadata() -> None:
    desired = DesiredNode(
        labels={"pool": "b", "gone": None}, annotations={"note": None, "new": "1"}
    )
    assert patches(NODE, [desired]) == NodePatches(
        metadata={"metadata": {"labels": {"pool": "b"}, "annotations": {"note": None, "new": "1"}}}
    )


@pytest.mark.parametrize(
    "desired",
    [
        DesiredNode(),
        DesiredNode(resources={BATCH_CPU: 4000, BATCH_MEMORY: None}),
        DesiredNode(labels={"pool": "a", "gone": None}, annotations={"note": "old"}),
    ],
)
def test_what_the_node_says_already_is_not_written(desired: DesiredNode) -> None:
    assert patches(NODE, [desired]) == NodePatches()


def test_only_the_half_that_differs_is_written() -> None:
    node = {"status": {**NODE["status"], "allocatable": {"cpu": "7900m"}}}
    assert patches(node, [DesiredNode(resources={BATCH_CPU: 4000})]) == NodePatches(
        status={"status": {"allocatable": {BATCH_CPU: "4000"}}}
    )


def test_what_is_removed_is_null() -> None:
    desired = DesiredNode(resources={BATCH_CPU: None})
    gone = {BATCH_CPU: None}
    assert patches(NODE, [desired]).status == {"status": {"capacity": gone, "allocatable": gone}}


def test_one_amount_over_the_threshold_takes_the_others_with_it() -> None:
    told = {GPU_MEMORY: "100"}
    node = merged(NODE, {"status": {"capacity": told, "allocatable": told}})
    little = DesiredNode(resources={BATCH_CPU: 4400, GPU_MEMORY: 101})
    assert patches(node, [little], 0.1) == NodePatches()
    more = DesiredNode(resources={BATCH_CPU: 4401, GPU_MEMORY: 101})
    both = {BATCH_CPU: "4401", GPU_MEMORY: "101"}
    assert patches(node, [more], 0.1).status == {"status": {"capacity": both, "allocatable": both}}


def test_the_threshold_is_not_about_labels() -> None:
    assert patches(NODE, [DesiredNode(labels={"pool": "b"})], 0.1).metadata is not None


@pytest.mark.parametrize("status", [{}, {"capacity": {"cpu": "8"}}, None])
def test_a_status_that_the_kubelet_has_not_written_is_left_alone(status: Any) -> None:
    desired = DesiredNode(resources={BATCH_CPU: 1000}, labels={"pool": "b"})
    found = patches({"status": status}, [desired])
    assert found == NodePatches(metadata={"metadata": {"labels": {"pool": "b"}}})


def test_two_wishes_for_one_name_are_an_error_that_names_both_values() -> None:
    one, same = DesiredNode(resources={BATCH_CPU: 1}), DesiredNode(resources={BATCH_CPU: 1})
    assert patches(NODE, [one, same]).status is not None
    other = DesiredNode(resources={BATCH_CPU: None})
    with pytest.raises(
        ValueError, match=f"resource {BATCH_CPU} has the desired values 1 and None; "
    ):
        patches(NODE, [one, other])
    desired = [DesiredNode(labels={"a": "x"}), DesiredNode(labels={"a": "y"})]
    with pytest.raises(
        ValueError, match="label a has the desired values 'x' and 'y'; expected one"
    ):
        patches(NODE, desired)


@pytest.mark.parametrize(
    ("old", "new", "needed"),
    [
        (1000, 1100, False),
        (1000, 1101, True),
        (1000, 899, True),
        (0, 0, False),
        (0, 1, True),
        (None, 0, True),
        (5, None, True),
        (None, None, False),
    ],
)
def test_needs_sync(old: int | None, new: int | None, needed: bool) -> None:
    assert needs_sync(old, new, 0.1) is needed


AMOUNTS = st.none() | st.integers(0, 1 << 50)


@given(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS))
def test_a_patched_node_needs_nothing_more(given: tuple[int | None, ...]) -> None:
    desired = DesiredNode(resources=dict(zip("abcd", given, strict=True)))
    status = patches(NODE, [desired]).status
    after = merged(NODE, status) if status else NODE
    assert patches(after, [desired]) == NodePatches()
    wanted = {name: str(value) for name, value in desired.resources.items() if value is not None}
    for kind in ("capacity", "allocatable"):
        said = after["status"][kind]
        assert {name: said[name] for name in "abcd" if name in said} == wanted
        assert {name: said[name] for name in NODE["status"][kind]} == NODE["status"][kind]
