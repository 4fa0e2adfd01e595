"""A part for the cluster and parts for nodes, read from one key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from koord_manager.slo_config.core.layers import ConfigLayers, read


def overlay(usual: int, document: Mapping[str, object], where: str, problems: list[str]) -> int:
    """A layer that is one number, ``n``."""
    given = document.get("n", usual)
    if not isinstance(given, int):
        problems.append(f"{where} n is bad")
        return usual
    return given


def layers(document: Any, **more: str) -> tuple[ConfigLayers[int], list[str]]:
    problems: list[str] = []
    return read("key", json.dumps(document), 1, overlay, problems, **more), problems


def on(**labels: str) -> dict[str, Any]:
    return {"nodeSelector": {"matchLabels": labels}}


def test_what_is_wrong_for_the_cluster_is_not_said_again_for_each_node():
    _, problems = layers({"n": "x", "nodeConfigs": [on(a="b"), on(c="d")]})
    assert problems == ["key n is bad"]


def test_layers_are_named_in_lines():
    _, problems = layers({"nodeConfigs": [{"name": "gpu\n", "n": "x", **on(a="b")}, 7]})
    assert problems == [
        'key nodeConfigs[0] "gpu\\n" n is bad',
        "key nodeConfigs[1] is 7; expected an object (left out)",
    ]
