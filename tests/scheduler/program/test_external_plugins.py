"""Plugins of another distribution (tests/external_plugins) do all that a feature may do."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.protocol.resources import NODES, PODS
from koord_model.keys import ANNOTATION_SCHEDULING_HINT
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.program.added_plugins import added_plugins

from tests.scheduler.program.test_program import NAMESPACE, Side, side
from tests.support.waiting import until

__all__ = ["side"]
FOLDER = Path(__file__).parents[2] / "external_plugins"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      filter: {enabled: [{name: RackPower}, {name: PinnedNodes}]}
      score: {enabled: [{name: RackPower, weight: 100}]}
    pluginConfig: [{name: RackPower, args: {reportSeconds: 0.05}}]
"""
PINNED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {filter: {enabled: [{name: PinnedNodes}]}}
"""
OF_KOORDINATOR = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {multiPoint: {enabled: [{name: SchedulingHint}]}}
"""
WATTS, LAST, USED = "example.com/watts", "example.com/last-pod", "example.com/watts-used"


@pytest.fixture(autouse=True, scope="module")
def _installed() -> Iterator[None]:
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


def annotations(side: Side, node: str) -> dict[str, str]:
    return dict(side.api.get(NODES, node)["metadata"].get("annotations") or {})


async def test_one_that_reserves_writes_and_watches(side: Side) -> None:
    for name, watts in (("n1", "300"), ("n2", "200")):
        side.node(name, **{WATTS: watts})
    async with side.scheduler(config=read_scheduler_config(CONFIG, added_plugins())) as program:
        await power(side, "a", "250")
        await side.bound("a")
        assert side.node_of("a") == "n1"
        written = side.api.get(PODS, "a", NAMESPACE)["metadata"]["annotations"]
        assert written["example.com/watts-granted"] == "250"
        assert annotations(side, "n1")[LAST] == f"{NAMESPACE}/a"
        await until(lambda: annotations(side, "n1").get(USED) == "250", "a report")
        await power(side, "b", "250")
        await until(lambda: bool(side.scheduled("b")), "a condition")
        assert "2 node(s) have too few watts left" in side.scheduled("b")["message"]
        read = program.registry.get_sample_value
        assert await asyncio.to_thread(read, "rack_power_watts_used", {"node": "n1"}) == 250
        side.api.delete(PODS, "a", NAMESPACE)
        await side.bound("b")


async def test_a_binding_that_fails_takes_back_what_was_written(side: Side) -> None:
    side.node("n1", **{WATTS: "300"})
    await power(side, "a", "250")
    fault = side.api.fail(verb="create", plural="pods", status=409, times=1000)
    async with side.scheduler(config=read_scheduler_config(CONFIG, added_plugins())):
        await until(lambda: fault.times < 1000, "a first try")
        await until(lambda: LAST not in annotations(side, "n1"), "its undo")
        fault.times = 0
        await side.bound("a")
    assert annotations(side, "n1")[LAST] == f"{NAMESPACE}/a"


async def power(side: Side, name: str, watts: str) -> None:
    """A pod that asks for so many watts."""
    await side.pod(name, annotations={WATTS: watts})


@given(st.integers(0, 1 << 32))
def test_a_hint_rebuilt_outside_decides_as_the_one_inside(seed: int) -> None:
    assert decisions(PINNED, seed) == decisions(OF_KOORDINATOR, seed)


def decisions(config: str, seed: int) -> list[str]:
    """Nodes of pods with hints of all kinds, and why some have none."""
    rng = Random(seed)
    profiles = [one.profile for one in read_scheduler_config(config, added_plugins()).profiles]
    scheduler = Scheduler(profiles)
    kinds = {one.name: one for one in cluster_kinds(scheduler)}
    kinds["Pod"] = pod_kind(scheduler, lambda: 0.0)

    def put(kind: str, key: str, document: dict[str, Any]) -> None:
        kinds[kind].put(key, kinds[kind].read(json.dumps(document).encode()))

    names = [f"n{number}" for number in range(4)]
    for name in names:
        amounts = {"cpu": "4", "pods": "3"}
        put("Node", name, {"metadata": {"name": name}, "status": {"allocatable": amounts}})
    found = []
    for number in range(8):
        hint = {
            field: rng.sample([*names, "gone"], rng.randrange(3))
            for field in rng.sample(["nodeNames", "preferredNodeNames"], rng.randrange(3))
        }
        text = rng.choice([json.dumps(hint), ""])
        metadata = {"name": f"p{number}", "namespace": "d", "uid": f"u{number}"}
        given_text = {ANNOTATION_SCHEDULING_HINT: text} if text else {}
        put("Pod", f"d/p{number}", {"metadata": {**metadata, "annotations": given_text}})
        decision = scheduler.decide(0.0)
        found.append(decision.node if isinstance(decision, Placement) else "")
    return found
