"""Nodes change sides as services need them, without going to and fro."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from koord_descheduler.tide.core.node_marks import ANNOTATION_MOVE, LABEL_POOL, Side
from koord_descheduler.tide.core.pool_spec import PREFIX
from koord_descheduler.tide.core.tide_plan import CleanNode, KeepPoolFinalizer
from koord_scheduler.config.scheduler_config import API_VERSION, KIND, scheduler_config
from koord_scheduler.plugins.node_quarantine.columns import QuarantineColumns

from tests.descheduler.clusters import pod
from tests.descheduler.tide.tide_world import App, TideWorld

ONLINE, OFFLINE = Side.ONLINE, Side.OFFLINE
TAINT = {"key": f"{PREFIX}/online-not-used", "value": "true", "effect": "NoSchedule"}


def world(nodes: int = 6, low: int = 60, high: int = 80, **configs: Any) -> TideWorld:
    strategy = {"type": "watermark", "watermark": {"low": low, "high": high}}
    made = TideWorld(nodes, nodeConfigs=configs, evictStrategy=strategy, coolDown="10m")
    made.apps["web"] = App("1", 10)
    made.apps["batch"] = App("2", 12, OFFLINE)
    return made


def run(made: TideWorld, steps: int) -> None:
    for _ in range(steps):
        made.step()


def test_nodes_go_offline_and_come_back_as_services_need_them() -> None:
    made = world()
    run(made, 16)
    assert (len(made.on(ONLINE)), len(made.on(OFFLINE)), made.drains) == (3, 3, {})
    assert made.waiting(OFFLINE) == [], "batch jobs run on the three nodes"
    gone = made.changes[0][1]
    labels = made.nodes[gone]["metadata"]["labels"]
    assert labels[f"{PREFIX}/node-type"] == "offline"
    assert (labels[LABEL_POOL], labels[f"{PREFIX}/reserve"]) == ("p", "false")
    assert made.nodes[gone]["spec"]["taints"] == [TAINT]
    made.apps["web"].replicas = 40
    plan = made.step()
    assert "fit nowhere else" in plan.message or "above 80" in plan.message
    run(made, 3)
    assert made.waiting() == []
    assert not made.nodes[gone]["spec"].get("taints")
    assert made.nodes[gone]["metadata"]["labels"][f"{PREFIX}/node-type"] == "online"


def test_reserves_are_held_on_both_sides() -> None:
    made = world(8, 90, 95, reserve={"online": "30%", "offline": 1})
    made.apps["web"].replicas = 2
    run(made, 40)
    assert (len(made.on(ONLINE)), len(made.on(OFFLINE))) == (3, 5)
    made.apps["web"].replicas = 60
    run(made, 20)
    assert (len(made.on(ONLINE)), len(made.on(OFFLINE))) == (7, 1)
    assert made.step().message.endswith("all offline nodes are a reserve")
    names = {name for name, node in made.nodes.items() if _is_reserved(node)}
    assert len(names) == 4


def _is_reserved(node: Any) -> bool:
    labels = node["metadata"]["labels"]
    reserved: bool = labels[f"{PREFIX}/reserve"] == "true"
    assert reserved is (f"{PREFIX}/tide" not in labels)
    return reserved


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"unschedulable": True}},
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        {"spec": {"taints": [{"key": "node.katalyst.kubewharf.io/disk", "effect": "NoSchedule"}]}},
    ],
    ids=["cordoned", "not ready", "tainted"],
)
def test_nodes_that_do_not_work_neither_count_nor_move(change: Any) -> None:
    made = world(5, reserve={"online": 3})
    made.step()
    moving = next(iter(made.drains.values()))["spec"]["nodeName"]
    broken = sorted(made.nodes.keys() - {moving})[0]
    made.patch_node(broken, change)
    run(made, 25)
    assert len(made.on(ONLINE)) == 3
    assert broken not in {name for _, name, _ in made.changes}
    assert broken not in made.on(ONLINE)


def test_a_node_in_quarantine_neither_counts_nor_moves() -> None:
    plugins = {"multiPoint": {"enabled": [{"name": "NodeQuarantine"}]}}
    identity = {"apiVersion": API_VERSION, "kind": KIND}
    config = scheduler_config({**identity, "profiles": [{"plugins": plugins}]})
    made = TideWorld(3, config=config, nodeConfigs={}, evictStrategy={"type": "watermark"})
    nodes = made.cluster.cluster.scheduler.nodes
    row = nodes.row("n00")
    assert row is not None
    blocked = np.zeros(len(nodes), dtype=bool)
    blocked[row] = True
    columns = nodes.find(QuarantineColumns)
    assert columns is not None
    columns.blocked[""] = blocked
    unusable = {node.name: node.unusable for node in made.state().nodes}
    assert unusable.pop("n00") == "its last pods were rejected (NodeQuarantine)"
    assert set(unusable.values()) == {""}


def test_a_node_of_another_drain_is_left_alone() -> None:
    made = world(3)
    made.drains = {
        f"d-{name}": {
            "metadata": {"name": f"d-{name}", "uid": name},
            "spec": {"nodeName": name},
            "status": {"phase": "Waiting"},
        }
        for name in ("n00", "n01")
    }
    plan = made.step()
    assert not plan.moves
    assert {node.unusable for node in made.state().nodes} == {"", "another DrainNode empties it"}


def test_a_move_that_cannot_end_gives_the_node_back_and_it_rests() -> None:
    made = world()
    made.apps["web"].disruptions = 0
    made.step()
    (drain,) = made.drains.values()
    name = drain["spec"]["nodeName"]
    run(made, 10)
    assert made.refused > 0
    assert made.step().acts
    assert not made.nodes[name]["spec"].get("unschedulable")
    text = made.nodes[name]["metadata"]["annotations"][ANNOTATION_MOVE]
    assert '"result":"GivenBack"' in text
    assert "not done after 600 s" in text
    assert made.changes == []
    assert made.side(name) is ONLINE
    run(made, 5)
    assert name not in {each["spec"]["nodeName"] for each in made.drains.values()}


def test_pods_that_cannot_move_keep_their_node_online() -> None:
    made = world(2)
    made.apps["web"].replicas = 0
    for name in made.nodes:
        made.cluster.put(pod(f"bare-{name}", name, cpu="1", owner=None))
    plan = made.step()
    assert not plan.moves
    assert plan.stay["n00"] == "default/bare-n00: it is bare: nothing makes it anew"
    assert plan.message.startswith("no node goes offline; n00: default/bare-n00")


def test_a_dry_run_says_what_it_would_do() -> None:
    made = world()
    made.document["spec"]["dryRun"] = True
    plan = made.step()
    assert plan.message.startswith("dry run: n0")
    assert made.drains == {}
    assert all(LABEL_POOL not in node["metadata"]["labels"] for node in made.nodes.values())


def test_a_pool_that_is_deleted_leaves_nodes_as_others() -> None:
    made = world()
    run(made, 16)
    run(made, 1)
    made.apps["web"].replicas = 8
    made.step()
    made.document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    acts = [act for _ in range(3) for act in made.step().acts]
    assert {act.node for act in acts if isinstance(act, CleanNode)} == made.nodes.keys()
    assert acts[-1] == KeepPoolFinalizer(keep=False)
    assert made.drains == {}
    for node in made.nodes.values():
        assert not any(key.startswith(PREFIX) for key in node["metadata"]["labels"])
        assert not node["spec"].get("taints")
        assert ANNOTATION_MOVE not in node["metadata"].get("annotations", {})


# ---- properties

COOL_DOWN = 600.0
SIZES = st.sampled_from(["500m", "1", "2", "3"])


@st.composite
def worlds(draw: st.DrawFn) -> TideWorld:
    low = draw(st.integers(20, 80))
    nodes = draw(st.integers(2, 6))
    made = world(
        nodes,
        low,
        draw(st.integers(low + 5, 100)),
        reserve={
            "online": draw(st.integers(0, 2)),
            "offline": draw(st.sampled_from([0, 1, "30%"])),
        },
    )
    made.apps = {
        f"a{number}": App(
            draw(SIZES), draw(st.integers(0, 12)), disruptions=draw(st.integers(1, 3))
        )
        for number in range(draw(st.integers(1, 3)))
    }
    made.apps["batch"] = App("2", 8, OFFLINE)
    return made


def check(made: TideWorld) -> None:
    """Check the rules that hold after every step."""
    state = made.state()
    changes = defaultdict(list)
    for at, name, _ in made.changes:
        changes[name].append(at)
    for times in changes.values():
        assert all(later - at >= COOL_DOWN for at, later in itertools.pairwise(times))
    assert len(state.on(ONLINE)) >= min(state.reserve(ONLINE), len(state.nodes))
    for name, missing in made.missing.items():
        assert missing <= made.apps[name].disruptions, "as its budget says"


@settings(max_examples=12)
@given(made=worlds())
def test_under_a_constant_load_nodes_come_to_rest(made: TideWorld) -> None:
    for _ in range(45):
        made.step()
        check(made)
    moves = len(made.changes)
    for _ in range(15):
        made.step()
    assert len(made.changes) == moves, "nothing moves any more"
    assert moves <= 2 * len(made.nodes)
    spare = len(made.on(OFFLINE)) > made.state().reserve(OFFLINE)
    assert not (made.waiting() and spare), "no service waits while a node could come"


@settings(max_examples=8)
@given(made=worlds(), period=st.integers(5, 40), depth=st.integers(1, 12))
def test_a_load_that_swings_moves_no_node_twice_in_a_cool_down(
    made: TideWorld, period: int, depth: int
) -> None:
    app = made.apps["a0"]
    mean = app.replicas
    for step in range(60):
        app.replicas = max(0, round(mean + depth * math.sin(2 * math.pi * step / period)))
        made.step()
        check(made)
