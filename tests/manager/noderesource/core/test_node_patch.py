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


BOTH_MORE = {GPU_MEMORY: "100"}
WITH_GPU = merged(NODE, {"status": {"capacity": BOTH_MORE, "allocatable": BOTH_MORE}})
UNMADE: dict[str, Any] = {"status": {"capacity": {"cpu": "8"}}}


def both(**amounts: Any) -> dict[str, Any]:
    """In capacity and allocatable; names by their last part."""
    names = {"cpu": BATCH_CPU, "memory": BATCH_MEMORY, "gpu": GPU_MEMORY}
    found = {names[name]: amount for name, amount in amounts.items()}
    return {"status": {"capacity": found, "allocatable": found}}


@pytest.mark.parametrize(
    ("node", "desired", "status", "metadata"),
    [
        (
            NODE,
            DesiredNode(resources={BATCH_CPU: 5000, BATCH_MEMORY: 1 << 30}),
            both(cpu="5k", memory="1Gi"),
            None,
        ),
        (NODE, DesiredNode(resources={BATCH_CPU: None}), both(cpu=None), None),
        (NODE, DesiredNode(resources={BATCH_CPU: 4001}), both(cpu="4001"), None),
        (
            NODE,
            DesiredNode(labels={"pool": "b", "gone": None}, annotations={"note": None, "new": "1"}),
            None,
            {"labels": {"pool": "b"}, "annotations": {"note": None, "new": "1"}},
        ),
        # What the node says already is not written.
        (NODE, DesiredNode(), None, None),
        (NODE, DesiredNode(resources={BATCH_CPU: 4000, BATCH_MEMORY: None}), None, None),
        (
            NODE,
            DesiredNode(labels={"pool": "a", "gone": None}, annotations={"note": "old"}),
            None,
            None,
        ),
        # Only the half that differs.
        (
            {"status": {**NODE["status"], "allocatable": {"cpu": "7900m"}}},
            DesiredNode(resources={BATCH_CPU: 4000}),
            {"status": {"allocatable": {BATCH_CPU: "4k"}}},
            None,
        ),
        # One amount over the threshold takes the others with it; it is not about labels.
        (WITH_GPU, DesiredNode(resources={BATCH_CPU: 4400, GPU_MEMORY: 101}), None, None),
        (
            WITH_GPU,
            DesiredNode(resources={BATCH_CPU: 4401, GPU_MEMORY: 101}, labels={"pool": "b"}),
            both(cpu="4401", gpu="101"),
            {"labels": {"pool": "b"}},
        ),
        # A status that the kubelet has not written is left alone.
        (UNMADE, DesiredNode(resources={BATCH_CPU: 1}), None, None),
        ({"status": {}}, DesiredNode(resources={BATCH_CPU: 1}), None, None),
        ({"status": None}, DesiredNode(resources={BATCH_CPU: 1}), None, None),
    ],
)
def test_what_is_written(node: Any, desired: DesiredNode, status: Any, metadata: Any) -> None:
    expected = NodePatches(status=status, metadata=metadata and {"metadata": metadata})
    threshold = (0.1,) if node is WITH_GPU else ()
    assert patches(node, [desired], *threshold) == expected


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (
            {"resources": {BATCH_CPU: 1}},
            {"resources": {BATCH_CPU: None}},
            f"{BATCH_CPU} .* 1 and None",
        ),
        ({"labels": {"a": "x"}}, {"labels": {"a": "y"}}, "label a .* 'x' and 'y'; expected one"),
    ],
)
def test_two_desired_values_for_one_name_are_an_error(one: Any, other: Any, words: str) -> None:
    assert patches(NODE, [DesiredNode(**one)] * 2) == patches(NODE, [DesiredNode(**one)])
    with pytest.raises(ValueError, match=words):
        patches(NODE, [DesiredNode(**one), DesiredNode(**other)])


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
