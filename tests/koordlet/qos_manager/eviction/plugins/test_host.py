"""Real gRPC plugins on sockets: good, hung, lying and crashing ones, and Katalyst's own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.message import Message
from koord_model.qos import QoSClass
from koord_proto.eviction_plugin_pb2 import (
    HARD_MET,
    SOFT_MET,
    EvictPod,
    GetEvictPodsResponse,
    GetTopEvictionPodsResponse,
    PodsRequest,
    ThresholdMetResponse,
)
from koord_proto.kubernetes_pb2 import EncodedList, Envelope, Pod
from koord_proto.plugin_registration_pb2 import PluginInfo
from koordlet.plugin_watcher.core.registrations import RegisteredPlugin
from koordlet.plugin_watcher.watcher import PluginWatcher
from koordlet.qos_manager.eviction.plugins.core.answers import PluginAnswer, PluginAnswers
from koordlet.qos_manager.eviction.plugins.host import (
    DEADLINE_SECONDS,
    KIND,
    VERSIONS,
    EvictionPluginHost,
)
from koordlet.qos_manager.eviction.plugins.pod_messages import PodMessages

from tests.support.plugin_server import PluginServer
from tests.support.views import pod_view

SERVICE = "evictionplugin.v1alpha1.EvictionPlugin"
RECORDS = [
    pod_view(
        name, qos=QoSClass.BE, priority=5000, labels={"evict": label}, requests={"cpu": 1500}
    ).record
    for name, label in (("a", "named"), ("b", "top"), ("c", "none"))
]


class Node:
    """A host with what it keeps; its time is the test's."""

    def __init__(self, pods: PodMessages | None = None) -> None:
        self.kept = PluginAnswers()
        self.at = 0.0
        self.host = EvictionPluginHost(
            lambda _: RECORDS,
            pods or PodMessages("n1", None),
            lambda found: setattr(self, "kept", found),
            now=lambda: self.at,
        )

    def follow(self, *sockets: Path) -> None:
        self.host.follow(
            tuple(
                RegisteredPlugin(KIND, path.stem, str(path), "v1alpha1", (1, number, 1))
                for number, path in enumerate(sockets)
            )
        )

    async def ask(self, at: float = 0.0) -> dict[str, PluginAnswer]:
        self.at = at
        await self.host.ask_all()
        return {answer.plugin: answer for answer in self.kept.answers}


class Plugin:
    """Answers of a plugin; ``asked`` are the requests of GetTopEvictionPods."""

    def __init__(
        self, *, named: str = "", met: ThresholdMetResponse | None = None, targets: str = ""
    ) -> None:
        self.named = named
        self.met = met or ThresholdMetResponse()
        self.targets = targets
        self.asked: list[PodsRequest] = []

    def server(self, path: Path) -> PluginServer:
        info = PluginInfo(type=KIND, name=path.stem, supported_versions=VERSIONS)
        methods = {"GetEvictPods": self._named, "ThresholdMet": self._met}
        return PluginServer(path, info, SERVICE, {**methods, "GetTopEvictionPods": self._top})

    async def _named(self, _: bytes) -> Message:
        pods = [EvictPod(pod=_pod(uid), force_evict=True) for uid in self.named]
        return GetEvictPodsResponse(evict_pods=pods)

    async def _met(self, _: bytes) -> Message:
        return self.met

    async def _top(self, request: bytes) -> Message:
        self.asked.append(PodsRequest.FromString(request))
        return GetTopEvictionPodsResponse(target_pods=[_pod(uid) for uid in self.targets])


def _pod(uid: str) -> Pod:
    pod = Pod()
    pod.metadata.uid = uid
    return pod


async def test_a_threshold_waits_for_its_grace_from_first_sight_and_then_names_pods(
    tmp_path: Path,
) -> None:
    node = Node()
    met = ThresholdMetResponse(
        met_type=SOFT_MET,
        eviction_scope="memory",
        grace_period_seconds=20,
        candidate_pods=[_pod("c")],
    )
    plugin = Plugin(met=met, targets="cax")
    async with plugin.server(tmp_path / "p.sock"):
        node.follow(tmp_path / "p.sock")
        for at in (0, 15):
            found = (await node.ask(at))["p"].met
            assert found is not None
            assert (found.lasted, found.targets, plugin.asked) == (at, (), [])
        found = (await node.ask(20))["p"].met
        assert found is not None
        assert found.targets == ("c", "a")
        (request,) = plugin.asked
        assert (request.topN, request.eviction_scope) == (0, "memory")
        assert [Pod.FromString(pod).metadata.uid for pod in request.active_pods] == ["c"]
        plugin.met = ThresholdMetResponse()
        assert (await node.ask(25))["p"].met is None
        plugin.met = met
        found = (await node.ask(30))["p"].met
        assert found is not None
        assert found.lasted == 0
        # Of a hard threshold one is asked for and one counts.
        plugin.met = ThresholdMetResponse(met_type=HARD_MET)
        found = (await node.ask(35))["p"].met
        assert found is not None
        assert (found.targets, plugin.asked[-1].topN) == (("c",), 1)
    node.follow()
    await node.ask(40)


async def test_bad_plugins_cost_others_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node()
    good, hung, lying = Plugin(named="a"), Plugin(), Plugin(named="x" * 9 + "b" * 99)
    async with (
        good.server(tmp_path / "good.sock"),
        hung.server(tmp_path / "hung.sock") as silent,
        lying.server(tmp_path / "lying.sock"),
    ):
        silent.hangs = True
        names = ("crashed", "good", "hung", "lying")
        node.follow(*(tmp_path / f"{name}.sock" for name in names))
        began = time.monotonic()
        found = await node.ask()
        assert time.monotonic() - began < DEADLINE_SECONDS + 1
        assert [one.uid for one in found["good"].named] == ["a"]
        assert ([one.uid for one in found["lying"].named], found["lying"].strange) == (["b"], 9)
        assert "DEADLINE_EXCEEDED" in found["hung"].problem
        assert "UNAVAILABLE" in found["crashed"].problem
        began = time.monotonic()
        assert "did not answer" in (await node.ask())["hung"].problem
        assert time.monotonic() - began < 1
        assert caplog.messages.count("eviction plugin failed") == 2
    node.follow()
    await node.ask()


async def test_pods_are_listed_in_protobuf_when_one_is_new_and_spliced_unchanged() -> None:
    now, lists = 0.0, 0
    whole = _pod("a").SerializeToString() + b"\xfa\x01\x03new"

    async def read_list() -> bytes:
        nonlocal lists
        lists += 1
        if lists == 1:
            raise OSError("403 Forbidden")
        raw = EncodedList(items=[whole, _pod("z").SerializeToString()]).SerializeToString()
        return b"k8s\0" + Envelope(raw=raw).SerializeToString()

    pods = PodMessages("n1", read_list, now=lambda: now)
    found = await pods.of(RECORDS[:1])
    assert Pod.FromString(found["a"]).spec.node_name == "n1"
    now = 299
    await pods.of(RECORDS[:1])
    assert lists == 1
    now = 300
    assert await pods.of(RECORDS[:1]) == {"a": whole}
    now = 309
    await pods.of(RECORDS[:2])
    assert lists == 2
    now = 310
    assert (await pods.of(RECORDS[:2]))["a"] == whole
    assert lists == 3
    # One that it still lacks is asked for less and less often.
    now = 329
    await pods.of(RECORDS[:2])
    assert lists == 3
    now = 330
    await pods.of(RECORDS[:2])
    assert lists == 4


# ---- Katalyst's skeleton


PLUGIN = os.environ.get("KATALYST_EVICTION_PLUGIN", "")


@pytest.fixture
def skeleton(tmp_path: Path) -> Iterator[Path]:
    """Two plugins of the given binary: one that answers, and the skeleton's own dummy."""
    with (tmp_path / "log").open("wb") as log:
        started = [
            subprocess.Popen([PLUGIN, tmp_path / "socks", name], stdout=log, stderr=log)
            for name in ("labelled", "fake-eviction-plugin")
        ]
    yield tmp_path
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.skipif(not PLUGIN, reason="needs $KATALYST_EVICTION_PLUGIN, see docs")
async def test_a_plugin_by_katalysts_skeleton_runs_unchanged(skeleton: Path) -> None:
    node = Node()
    watcher = PluginWatcher(str(skeleton / "socks"))
    watcher.follow(KIND, VERSIONS, node.host.follow)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        watching = group.create_task(watcher.run())
        while len(watcher.plugins(KIND)) < 2:
            await asyncio.sleep(0.1)
        found = await node.ask()
        watching.cancel()
    assert [one.uid for one in found["labelled"].named] == ["a"]
    met = found["labelled"].met
    assert met is not None
    assert (met.targets, met.scope, met.hard, met.observed) == (("b",), "memory", True, 9)
    assert found["labelled"].conditions[0].name == "Hot"
    # It has no method but those of its registration.
    assert found["fake-eviction-plugin"] == PluginAnswer("fake-eviction-plugin", 0, offered=3)
    said = (skeleton / "log").read_text()
    assert "offered ns/a uid=a priority=5000 phase=Running qos=BestEffort containers=1" in said
    assert "top 1 of 3, scope memory" in said
    node.follow()
    await node.ask()
