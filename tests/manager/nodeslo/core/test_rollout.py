"""Entries of ``pykoord-config`` by node: canaries, names, priorities, pauses, ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_manager.node_objects.core.nodes import ClusterNode
from koord_manager.node_objects.core.reconciler import ExistingObject
from koord_manager.nodeslo.core.reconciler import desired
from koord_manager.nodeslo.core.rollout import Rollout
from koord_manager.slo_config.core.config import UNREAD, SLOConfig, advance, unknown_in

NODES = {f"n{number}": {"pool": "a" if number % 2 else "b"} for number in range(40)}
EVERYWHERE = {"nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}}
POOL_A = {"nodeSelector": {"matchLabels": {"pool": "a"}}}


def config(*entries: dict[str, Any]) -> SLOConfig:
    text = json.dumps({"clusterStrategy": mode("off"), "nodeStrategies": entries})
    found, problems = advance(UNREAD, {"pykoord-config": text})
    assert problems == ()
    return found


def mode(word: str) -> dict[str, Any]:
    return {"strategies": {"memory_offload": {"mode": word}}}


class Cluster:
    """Nodes and what a manager wrote for them."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.labels: dict[str, dict[str, str]] = dict(NODES)
        self.rollout = Rollout(lambda: self.labels, lambda: self.now)
        self.written: dict[str, dict[str, Any]] = {}

    def apply(self, found: SLOConfig) -> None:
        for name, labels in self.labels.items():
            spec = json.dumps(self.written.get(name, {})).encode()
            node, there = ClusterNode(name, labels=labels), ExistingObject("u", spec=spec)
            self.written[name], _ = desired(found, node, there, self.rollout)

    def with_mode(self, word: str) -> set[str]:
        return {
            name
            for name in self.labels
            if self.section(name)["strategies"] == mode(word)["strategies"]
        }

    def section(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.written[name]["extensions"]["pykoord"]
        return found


def test_a_canary_is_so_many_of_the_selected_nodes_and_grows_by_more() -> None:
    cluster, before = Cluster(), set[str]()
    for canary, nodes in (("10%", 2), (5, 5), ("50%", 10), (100, 20)):
        cluster.apply(config({"name": "offload", **POOL_A, **mode("on"), "canary": canary}))
        chosen = cluster.with_mode("on")
        assert len(chosen) == nodes
        assert chosen > before
        assert all(NODES[name]["pool"] == "a" for name in chosen)
        before = chosen


def test_the_same_nodes_after_a_restart_and_others_for_another_entry() -> None:
    def chosen(name: str) -> set[str]:
        cluster = Cluster()
        cluster.apply(config({"name": name, **EVERYWHERE, **mode("on"), "canary": 5}))
        return cluster.with_mode("on")

    assert chosen("x") == chosen("x") != chosen("y")


def test_a_node_that_goes_is_replaced_in_the_canary() -> None:
    cluster = Cluster()
    found = config({"name": "x", **EVERYWHERE, **mode("on"), "canary": 5})
    cluster.apply(found)
    assert not cluster.rollout.refresh()
    del cluster.labels[min(cluster.with_mode("on"))]
    cluster.rollout.node_changed()
    assert cluster.rollout.refresh()
    cluster.apply(found)
    assert len(cluster.with_mode("on")) == 5


def test_names_go_before_priorities_and_these_before_the_order() -> None:
    cluster = Cluster()
    cluster.apply(
        config(
            {"name": "late", **POOL_A, **mode("shadow")},
            {"name": "first", **EVERYWHERE, **mode("on"), "priority": 1, "canary": 0},
            {"name": "second", **POOL_A, **mode("on"), "priority": 1},
            {"name": "named", "nodeNames": ["n1", "n2"], **mode("shadow")},
        )
    )
    assert cluster.with_mode("on") == {name for name in NODES if NODES[name]["pool"] == "a"} - {
        "n1"
    }
    assert cluster.with_mode("shadow") == {"n1", "n2"}
    assert cluster.section("n2")["rollout"]["entry"] == 'nodeStrategies[3] "named"'
    assert cluster.section("n4")["rollout"]["entry"] == "clusterStrategy"


def test_an_entry_ends_by_itself() -> None:
    cluster = Cluster()
    found = config({**POOL_A, **mode("on"), "until": "1970-01-01T00:20:00Z"})
    cluster.apply(found)
    assert cluster.with_mode("on")
    cluster.now = 1199.0
    assert not cluster.rollout.refresh()
    cluster.now = 1200.0
    assert cluster.rollout.refresh()
    assert not cluster.rollout.refresh()
    cluster.apply(found)
    assert not cluster.with_mode("on")


def test_nodes_of_a_paused_entry_keep_what_they_have() -> None:
    cluster = Cluster()
    cluster.apply(config({"name": "x", **POOL_A, **mode("on"), "canary": 3}))
    canary = cluster.with_mode("on")
    cluster.apply(config({"name": "x", **POOL_A, **mode("shadow"), "paused": True}))
    assert cluster.with_mode("on") == canary
    assert not cluster.with_mode("shadow")
    # A new node has nothing to keep.
    cluster.labels["new"] = {"pool": "a"}
    cluster.apply(config({"name": "x", **POOL_A, **mode("shadow"), "paused": True}))
    assert cluster.section("new")["rollout"]["entry"] == "clusterStrategy"


def test_the_version_is_that_of_the_content() -> None:
    def version(word: str) -> str:
        cluster = Cluster()
        cluster.apply(config({**EVERYWHERE, **mode(word)}))
        found: str = cluster.section("n1")["rollout"]["version"]
        return found

    assert version("on") == version("on") != version("shadow")


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"canary": "101%"}, "canary is"),
        ({"canary": -1}, "canary is"),
        ({"canary": True}, "canary is"),
        ({"canary": "10%", "name": ""}, "name"),
        ({"nodeNames": []}, "nodeNames is"),
        ({"nodeNames": [1]}, "nodeNames is"),
        ({"until": "soon"}, "until is"),
        ({"priority": -1}, "priority is"),
        ({"paused": "yes"}, "paused is"),
        ({"bounds": {"psiPercent": -1}}, "psiPercent is"),
        ({"bounds": 3}, "bounds is"),
    ],
)
def test_a_bad_reach_is_an_error_of_the_key(fields: dict[str, Any], line: str) -> None:
    entry = {"name": "x", **POOL_A, **mode("on"), **fields}
    _, problems = advance(UNREAD, {"pykoord-config": json.dumps({"nodeStrategies": [entry]})})
    assert len(problems) == 1
    assert line in problems[0].line


def test_a_bound_of_another_name_is_named() -> None:
    entry = {"name": "x", **POOL_A, **mode("on"), "bounds": {"psiPercents": 3}}
    lines = [problem.line for problem in unknown_in({"pykoord-config": entries_text(entry)})]
    assert len(lines) == 1
    assert "did you mean psiPercent?" in lines[0]


def test_nodes_like_a_canary_say_their_version_and_a_held_entry_reaches_no_more() -> None:
    entry = {"name": "offload", **POOL_A, "canary": 5, **mode("on")}
    cluster = Cluster()
    found, _ = advance(UNREAD, {"pykoord-config": entries_text(entry)})
    cluster.apply(found)
    sections = {
        name: (spec.get("extensions") or {}).get("pykoord") or {}
        for name, spec in cluster.written.items()
    }
    assert sum("strategies" in section for section in sections.values()) == 5
    assert {name for name, section in sections.items() if "rollout" in section} == {
        name for name, labels in NODES.items() if labels["pool"] == "a"
    }
    cluster.rollout.held = lambda layer: layer.name == "offload"
    before = dict(cluster.written)
    cluster.apply(advance(UNREAD, {"pykoord-config": entries_text({**entry, "canary": "100%"})})[0])
    assert cluster.written == before


def entries_text(*entries: dict[str, Any]) -> str:
    return json.dumps({"nodeStrategies": entries})
