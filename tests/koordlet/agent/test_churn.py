"""Pods come and go through the whole agent, by the thousand: it holds no more than before."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from koord_hooks.protocol import request_type
from koord_hooks.stages import Stage
from koord_model.qos import QoSClass
from koord_service import repetitions
from koordlet.agent.agent import Agent
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.http_api.documents.node import node_document
from koordlet.http_api.documents.top import top_document
from koordlet.qos_manager.core.strategy import PodView
from koordlet.runtime_hooks import hook_answers
from prometheus_client import generate_latest

from tests.support.node.strategies import StrategyNode
from tests.support.node.workload import a_pod, everything_on
from tests.support.reachable import Holdings

PODS = int(os.environ.get("KOORD_TEST_PODS", "500"))
"""5000 by hand, before a release."""
_AT_ONCE = 5
_SECONDS = 30.0
"""Of a round: a pod lives for two and a half minutes."""


_EVERY = (QoSClass.LS, QoSClass.BE, QoSClass.NONE, QoSClass.LSR, QoSClass.BE)


def passing(node: StrategyNode, number: int) -> PodView:
    """A pod that was not there before."""
    qos = _EVERY[number % len(_EVERY)]
    own = f"{8 + number % 4}" if qos is QoSClass.LSR else ""
    return a_pod(node.layout, f"p{number:06}", qos, 1 + number % 2, own)


class Clock(SimpleNamespace):
    """Stands in for the module ``time`` wherever koordlet looks at it."""

    def __init__(self) -> None:
        super().__init__(**{name: getattr(time, name) for name in dir(time) if name[0] != "_"})
        self.steady, self.wall = 1000.0, 1_800_000_000.0
        self.monotonic, self.time = (lambda: self.steady), (lambda: self.wall)

    def pass_by(self, seconds: float) -> None:
        self.steady += seconds
        self.wall += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    made = Clock()
    ours = [one for name, one in sys.modules.items() if name.startswith(("koordlet.", "koord_"))]
    for module in ours:
        if getattr(module, "time", None) is time:
            monkeypatch.setattr(module, "time", made)
    monkeypatch.setattr("koordlet.agent.agent.os.geteuid", lambda: 0)
    # What has a bound reaches it before the first look.
    monkeypatch.setattr(repetitions, "_CAPACITY", 50)
    monkeypatch.setattr(hook_answers, "MOST_PODS", 50)
    logging.disable(logging.CRITICAL)
    yield made
    logging.disable(logging.NOTSET)


class BusyNode:
    """A node in memory, and the whole agent on it, a round at a time."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self.node, self._clock = StrategyNode(directory), clock
        (directory / "slo.yaml").write_text(
            yaml.safe_dump({"kind": "NodeSLO", "spec": everything_on()})
        )
        gates = sorted(DEFAULTS.keys() - {"Accelerators"})  # the machine's own, by a driver
        settings = self.node.settings(
            nodeslo_file=str(directory / "slo.yaml"),
            runtime_hooks_addr=str(directory / "koordlet.sock"),
            runtime_hooks_config_path=str(directory / "hookserver.d"),
            enable_nri_runtime_hook=False,
            hook_plugins=("all",),
            feature_gates=tuple(f"{gate}=true" for gate in gates),
            evict_dry_run=True,
            status_address="none",
            metrics_address="",
        )
        self.agent = Agent(settings, self.node.files)
        self._number = 0

    async def round(self) -> None:
        """Pods end, others begin; then everything that koordlet does in a while."""
        node, agent = self.node, self.agent
        self._clock.pass_by(_SECONDS)
        node.stop(*node.pods[: max(0, len(node.pods) + _AT_ONCE - 25)])
        for _ in range(_AT_ONCE):
            pod = passing(node, self._number)
            self._number += 1
            await self._ask(pod)
            node.start(pod)
        assert agent._node is not None
        assert agent._observing is not None
        assert agent._deciding is not None
        loop = agent._node.reconcile_loop
        loop.pods.inventory.replace([pod.record for pod in node.pods], self._clock.steady)
        loop.pods.complete = True
        agent._observing.observer.collect_once()
        await agent._deciding.decider.decide()
        await loop.reconcile()
        agent._observing._step()
        if self._number % 100 == 0:
            generate_latest(agent._metrics.registry)
            node_document(agent._observing.observed)
            top_document(agent._observing.observed)

    async def _ask(self, pod: PodView) -> None:
        """The hook calls of a pod that begins."""
        server, record = self.agent._server, pod.record
        assert server is not None
        context: Any = None
        request = request_type(Stage.PRE_RUN_POD_SANDBOX)(
            pod_meta={"name": record.pod.name, "namespace": record.pod.namespace, "uid": pod.uid},
            labels=dict(record.pod.labels),
            annotations=dict(record.pod.annotations),
            cgroup_parent=record.pod.cgroup_parent,
        )
        await server._asking(Stage.PRE_RUN_POD_SANDBOX)(request, context)

    def look(self) -> Holdings:
        """What the agent holds; what the node in memory remembers of it is none of it."""
        files = self.node.files
        for part in (files, files.cgroups, files.resctrl):
            part.writes.clear()
        return Holdings(self.agent)

    def close(self) -> None:
        assert self.agent._node is not None
        assert self.agent._observing is not None
        self.agent._node.shut_down()
        self.agent._observing.observer.cache.close()


@pytest.fixture
def busy(tmp_path: Path, clock: Clock) -> Iterator[BusyNode]:
    with StrategyNode(tmp_path).system_calls():
        made = BusyNode(tmp_path, clock)
        yield made
        made.close()


async def test_pods_that_come_and_go_leave_nothing(busy: BusyNode) -> None:
    for _ in range(PODS // _AT_ONCE // 2):
        await busy.round()
    before = busy.look()
    for _ in range(PODS // _AT_ONCE // 2):
        await busy.round()
    after = busy.look()
    grown = before.grown(after)
    assert grown == []
    assert after.bytes <= 1.1 * before.bytes
