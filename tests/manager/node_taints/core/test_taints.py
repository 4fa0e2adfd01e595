"""Taints for conditions: how long, on how many nodes, and whose."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.node_taints.core.taints import (
    ANNOTATION_TAINTS,
    HOLD_SECONDS,
    NodeTaint,
    TaintHolds,
    annotation,
    own,
    patch,
    reported,
)

HOT, COLD = NodeTaint("Hot", "NoSchedule"), NodeTaint("Cold", "PreferNoSchedule")
KEY = "node.katalyst.kubewharf.io/Hot"
THEIRS = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}


def status(*conditions: dict[str, Any]) -> bytes:
    return json.dumps({"extensions": {"pykoord": {"conditions": conditions}}}).encode()


def test_conditions_of_nodes_that_can_be_taints_count() -> None:
    hot = {"name": "Hot", "effects": ["NoSchedule", "NoExecute", "x"]}
    assert reported(status(hot, {**hot, "name": "a/b"}, {**hot, "on": "cnr"})) == {HOT}
    many = [{**hot, "name": f"n{number}"} for number in range(99)]
    assert len(reported(status(*many))) == 8
    for bad in (None, b"", b"{", b'{"extensions":{"pykoord":{"conditions":7}}}'):
        assert reported(bad) == frozenset()


def test_a_taint_is_held_for_a_while_after_the_last_report_and_anew_after_a_restart() -> None:
    holds, nodes = TaintHolds(), ["n1"]
    assert holds.desired(nodes, {"n1": frozenset({HOT, COLD})}, {}, 0) == {"n1": {HOT, COLD}}
    present = {"n1": frozenset({HOT, COLD})}
    assert holds.desired(nodes, {"n1": frozenset({HOT})}, present, 200) == present
    assert holds.desired(nodes, {}, present, HOLD_SECONDS) == {"n1": {HOT}}
    assert holds.desired(nodes, {}, present, 200 + HOLD_SECONDS) == {}
    again = TaintHolds()
    assert again.desired(nodes, {}, present, 0) == present
    assert again.desired(nodes, {}, present, HOLD_SECONDS) == {}


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 19), max_size=20), st.floats(0, HOLD_SECONDS)), max_size=8
    ),
    st.integers(1, 20),
)
def test_never_more_than_a_fifth_of_the_nodes_and_who_has_one_keeps_it(
    rounds: list[tuple[set[int], float]], number: int
) -> None:
    holds, now = TaintHolds(), 0.0
    nodes = [f"n{index}" for index in range(number)]
    present: dict[str, frozenset[NodeTaint]] = {}
    for asking, seconds in rounds:
        now += seconds
        asked = {f"n{index}": frozenset({HOT}) for index in asking}
        wanted = holds.desired(nodes, asked, present, now)
        assert len(wanted) <= max(1, number // 5)
        assert set(wanted) <= set(nodes)
        held = {node for node in present if node in asked}
        assert held <= set(wanted)
        assert set(asked) & set(nodes) <= set(wanted) | set(holds.waiting)
        present = dict(wanted)


def node(*taints: dict[str, str], ours: str | None = None) -> dict[str, Any]:
    annotations = {} if ours is None else {ANNOTATION_TAINTS: ours}
    return {"metadata": {"annotations": annotations}, "spec": {"taints": list(taints)}}


@pytest.mark.parametrize(
    ("there", "wanted", "taints", "ours"),
    [
        (node(THEIRS), {HOT}, [THEIRS, HOT.document], "Hot:NoSchedule"),
        (node(THEIRS, HOT.document, ours="Hot:NoSchedule"), set(), [THEIRS], None),
        (node(HOT.document, ours="Hot:NoSchedule"), set(), None, None),
        # Somebody removed ours.
        (node(ours="Hot:NoSchedule"), {HOT}, [HOT.document], "Hot:NoSchedule"),
        # Katalyst's own agent has set the same: it stays theirs.
        (node(HOT.document), {HOT, COLD}, [HOT.document, COLD.document], "Cold:PreferNoSchedule"),
    ],
)
def test_only_our_own_taints_are_changed(
    there: dict[str, Any], wanted: set[NodeTaint], taints: list[object] | None, ours: str | None
) -> None:
    before = own(there["metadata"]["annotations"])
    change = patch(there, before, frozenset(wanted))
    assert change == {
        "metadata": {"annotations": {ANNOTATION_TAINTS: ours}},
        "spec": {"taints": taints},
    }
    after = node(*(taints or ()), ours=ours)
    assert patch(after, own(after["metadata"]["annotations"]), frozenset(wanted)) is None


def test_the_annotation_names_ours() -> None:
    assert own({ANNOTATION_TAINTS: annotation({HOT, COLD}) or ""}) == {HOT, COLD}
    assert (annotation(()), own({}), own({ANNOTATION_TAINTS: "x,:,a:NoExecute"})) == (
        None,
        frozenset(),
        frozenset(),
    )
