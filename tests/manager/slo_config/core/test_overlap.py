"""Layers that match the same nodes."""

from __future__ import annotations

from typing import Any

import pytest
from koord_manager.slo_config.core import overlap as module
from koord_manager.slo_config.core.layers import ConfigLayers, NodeLayer
from koord_manager.slo_config.core.overlap import overlap
from koord_model.label_selector import parse


def layers(*selectors: dict[str, Any]) -> ConfigLayers[int]:
    nodes = tuple(
        NodeLayer(f"key nodeConfigs[{index}]", parse(one, ""), index)
        for index, one in enumerate(selectors)
    )
    return ConfigLayers(0, nodes)


def labelled(**labels: str) -> dict[str, Any]:
    return {"matchLabels": labels}


def matching(*expressions: tuple[str, ...]) -> dict[str, Any]:
    """Each is a key, an operator and values."""
    found = [{"key": k, "operator": op, "values": values} for k, op, *values in expressions]
    return {"matchExpressions": found}


@pytest.mark.parametrize(
    ("selectors", "whom"),
    [
        ([labelled(a="1"), labelled(a="1", b="2")], 'nodes labelled "a=1, b=2"'),
        ([labelled(a="1"), labelled(a="2")], ""),
        ([labelled(a="1"), labelled(b="1")], ""),
        ([labelled(a="1")], ""),
        ([labelled(a="2"), matching(("a", "In", "1", "2"))], 'nodes labelled "a=2"'),
        ([labelled(a="2"), matching(("a", "Exists"))], 'nodes labelled "a=2"'),
        ([labelled(a="2"), matching(("a", "NotIn", "2"))], ""),
        (
            # Koordinator tries (x, p) and (y, q) only.
            [labelled(a="x", b="q"), matching(("a", "In", "x", "y"), ("b", "In", "p", "q"))],
            'nodes labelled "a=x, b=q"',
        ),
    ],
)
def test_selectors_overlap_where_a_plain_node_matches_two(selectors, whom: str):
    line = overlap("key", layers(*selectors), {})
    expected = (
        f"key nodeConfigs[0] and nodeConfigs[1] both match {whom}; "
        "expected selectors that exclude each other"
    )
    assert line == (expected if whom else "")


def test_selectors_overlap_where_a_node_there_is_matches_two():
    found = layers(labelled(a="1"), labelled(b="1"))
    assert overlap("key", found, {"n1": {"a": "1"}, "n2": {"b": "1"}}) == ""
    assert "both match a node there is;" in overlap("key", found, {"n3": {"a": "1", "b": "1"}})


def test_very_many_values_are_not_all_tried():
    many = [f"v{number}" for number in range(300)]
    wide = matching(*((key, "In", *many) for key in "abcdef"))
    assert overlap("key", layers(wide, labelled(z="1")), {}) == ""


def test_of_nodes_that_no_selector_tells_apart_one_is_tried(monkeypatch):
    tried: list[str] = []
    monkeypatch.setattr(module, "_both", lambda _key, _layers, _labels, whom: tried.append(whom))
    nodes = {f"n{number}": {"a": "123"[number % 3], "host": str(number)} for number in range(99)}
    assert overlap("key", layers(labelled(a="1"), labelled(a="2", b="1")), nodes) == ""
    assert tried.count("a node there is") == 3
