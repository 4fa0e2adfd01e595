"""Eviction plugins of a whole koordlet: whom they are offered, and modes that change meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from koord_proto.eviction_plugin_pb2 import (
    Condition,
    EvictPod,
    GetEvictPodsResponse,
    PodsRequest,
    ThresholdMetResponse,
)
from koord_proto.kubernetes_pb2 import Pod
from koord_proto.plugin_registration_pb2 import PluginInfo
from koordlet.plugin_watcher import watcher
from koordlet.qos_manager.core.strategy import StrategyMode
from koordlet.qos_manager.eviction.plugins import host
from koordlet.qos_manager.eviction.plugins.core.answers import PluginConditions

from tests.koordlet.agent.test_qos_manager import RunningAgent, _as_root, running
from tests.support.node.pods import JOB, WEB, pod_list
from tests.support.plugin_server import PluginServer
from tests.support.waiting import until

__all__ = ["_as_root"]


class Greedy:
    """It wants all pods that it is offered, and its node to be tainted."""

    def __init__(self) -> None:
        self.offered: list[str] = []
        self.asked = 0

    def server(self, path: Path) -> PluginServer:
        methods = {"GetEvictPods": self._all, "ThresholdMet": self._hot}
        info = PluginInfo(type="EvictionPlugin", name="greedy", supported_versions=["v1alpha1"])
        return PluginServer(path, info, "evictionplugin.v1alpha1.EvictionPlugin", methods)

    async def _all(self, request: bytes) -> Message:
        self.asked += 1
        pods = [Pod.FromString(pod) for pod in PodsRequest.FromString(request).active_pods]
        self.offered = [pod.metadata.name for pod in pods]
        named = [EvictPod(pod=pod, reason="greed", force_evict=True) for pod in pods]
        return GetEvictPodsResponse(evict_pods=named)

    async def _hot(self, _: bytes) -> Message:
        hot = Condition(condition_name="Hot", effects=["NoSchedule"], met_condition=True)
        return ThresholdMetResponse(condition=hot)


def rules(mode: str) -> dict[str, Any]:
    strategies = {"eviction_plugins": {"modes": {"greedy": mode}}}
    return {"extensions": {"pykoord": {"strategies": strategies}}}


def outcomes(node: RunningAgent, mode: StrategyMode) -> str:
    """Decisions on evictions that are in force, of one mode."""
    found = node.deciding.decided.decisions.find(lambda key: key.strategy == "eviction_plugins")
    return "\n".join(one.decision.outcome for one in found.standing if one.mode is mode)


async def test_a_plugin_is_asked_by_its_mode_and_offered_only_who_may_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(host, "INTERVAL_SECONDS", 0.05)
    plugin, directory = Greedy(), str(tmp_path)
    async with running({}, "EvictionPlugins", plugin_registration_dir=directory) as node:
        node.node.start(JOB)
        (node.node.directory / "pods.json").write_bytes(pod_list([WEB, JOB]))
        async with plugin.server(tmp_path / "greedy.sock"):
            await until(lambda: plugin.offered == ["job"], "it is asked about the batch pod")
            await until(
                lambda: "would be evicted" in outcomes(node, StrategyMode.SHADOW), "it is a shadow"
            )
            latest = node.agent._observing.observed.latest  # type: ignore[union-attr]
            reported = lambda: latest.info(PluginConditions).conditions  # noqa: E731
            assert reported() == ()
            assert node.deciding.decider._evictor.recent() == ()
            node.ask(rules("on"))
            await until(lambda: bool(node.deciding.decider._evictor.recent()), "the pod is evicted")
            [attempt] = node.deciding.decider._evictor.recent()
            assert (attempt.pod, attempt.rule) == ("shop/job", "greedy")
            await until(lambda: [name for name, _ in reported()] == ["greedy"], "and reported")
            node.ask(rules("off"))
            await until(lambda: reported() == (), "it is not heard any more")
            asked = plugin.asked
            await asyncio.sleep(0.3)
            assert plugin.asked == asked
