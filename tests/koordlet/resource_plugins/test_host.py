"""Resource plugins over real gRPC: asked, hung, dead, restarted, removed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from koord_model.allocation import allocated_patch
from koord_proto import resource_plugin_pb2 as pb
from koordlet.plugin_watcher.watcher import PluginWatcher
from koordlet.resource_plugins import host as host_module
from koordlet.resource_plugins.allocation_store import NAME, AllocationStore
from koordlet.resource_plugins.core.hints import TopologyPolicy
from koordlet.resource_plugins.host import ResourcePluginHost
from koordlet.resource_plugins.plugins import KIND, VERSIONS, ResourcePlugins
from koordlet.resource_plugins.pod_allocator import SECONDS, AllocationPolicy, PodAllocator
from koordlet.resource_plugins.registration_server import RegistrationServer
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.support.resource_plugin import CpuPlugin, register
from tests.support.views import pod_view

DEDICATED = {
    "katalyst.kubewharf.io/qos_level": "dedicated_cores",
    "katalyst.kubewharf.io/memory_enhancement": '{"numa_binding": "true"}',
}
NODES = 0b11


def pod(name: str, cpus: int = 2, **options: Any) -> PodRecord:
    return pod_view(name, requests={"cpu": cpus * 1000, "memory": 1}, **options).record


class Node:
    """A koordlet's host of resource plugins, with what it knows of pods."""

    def __init__(self, folder: Path, **policy: Any) -> None:
        self.pods: dict[str, PodRecord] = {}
        self.folder = folder
        self.socket = folder / "kubelet.sock"
        self.changes = 0
        self.store = AllocationStore(str(folder / NAME))
        self.plugins = ResourcePlugins(str(folder))
        self.plugins.recall(self.store.load())
        self.allocator = PodAllocator(
            self.plugins,
            self.store,
            self._find,
            lambda: NODES,
            AllocationPolicy(**policy),
            self._changed,
        )
        informer: Any = SimpleNamespace(
            known=True, inventory=SimpleNamespace(records=lambda: tuple(self.pods.values()))
        )
        server = RegistrationServer(str(self.socket), self.plugins.register)
        self.host = ResourcePluginHost(
            self.plugins, self.store, self.allocator, server, informer, lambda: NODES, self._changed
        )
        self.watcher = PluginWatcher(str(folder / "watched"))
        self.watcher.follow(KIND, VERSIONS, self.plugins.follow)

    async def _find(self, uid: str) -> PodRecord:
        while uid not in self.pods:
            await asyncio.sleep(0.01)
        return self.pods[uid]

    def _changed(self) -> None:
        self.changes += 1
        self.host.wake()

    async def start(self, record: PodRecord) -> tuple[str, float]:
        """Start a pod: why it is refused, and how long it waited."""
        self.pods[record.pod.uid] = record
        before = time.monotonic()
        refusal = await self.host.prepare(record.pod)
        return refusal, time.monotonic() - before

    def cpus(self, uid: str) -> str | None:
        allocation = self.store.current.get(uid, {}).get("main", {})
        return allocated_patch(allocation, "0-7").resources.cpuset_cpus


@asynccontextmanager
async def running(folder: Path, **policy: Any) -> AsyncIterator[Node]:
    node = Node(folder, **policy)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(loop()) for loop in (node.host.run, node.watcher.run)]
        await until(node.socket.exists)
        try:
            yield node
        finally:
            for task in tasks:
                task.cancel()


async def until(done: Any) -> None:
    async with asyncio.timeout(10):
        while not done():
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "TURN_SECONDS", 0.05)


@pytest.mark.parametrize("watched", [True, False])
async def test_a_plugin_that_registers_allocates_for_pods_that_start_together(tmp_path, watched):
    folder = tmp_path / "watched" if watched else tmp_path
    async with running(tmp_path) as node, CpuPlugin(folder / "cpu.sock").server:
        if not watched:
            assert await register(node.socket, "cpu.sock") == ""
        await until(lambda: node.plugins.get("cpu"))
        starts = await asyncio.gather(*(node.start(pod(name)) for name in "abc"))
        assert [refusal for refusal, _ in starts] == ["", "", ""]
        assert sorted(node.cpus(name) or "" for name in "abc") == ["0-1", "2-3", "4-5"]
        assert node.socket.stat().st_mode & 0o777 == 0o600


async def test_a_restart_keeps_allocations_and_plugins_and_wipes_no_sockets(tmp_path):
    plugin = CpuPlugin(tmp_path / "cpu.sock")
    async with plugin.server:
        async with running(tmp_path) as node:
            await register(node.socket, "cpu.sock")
            await node.start(pod("a"))
            await until((tmp_path / NAME).exists)
        async with running(tmp_path) as node:
            node.pods["a"] = pod("a")
            assert node.cpus("a") == "0-1"
            asked = len(plugin.asked)
            await node.start(pod("a"))
            assert len(plugin.asked) == asked
            await node.start(pod("b"))
            assert node.cpus("b") == "2-3"


@pytest.mark.parametrize("content", ["", '{"plugins": {}', '{"format": "other"}', "[]"])
async def test_a_file_that_is_torn_or_foreign_is_one_line_and_a_fresh_start(
    tmp_path, content, words
):
    (tmp_path / NAME).write_text(content)
    store = AllocationStore(str(tmp_path / NAME))
    assert store.load() == {}
    assert store.current == {}
    [(message, fields)] = words()
    assert message == "no allocations of the last run, plugins are asked again"
    assert fields["reason"].startswith(f"{tmp_path / NAME}: is not a file of allocations")


@pytest.mark.parametrize("refuses", [False, True])
async def test_a_hung_plugin_delays_no_pod_longer_and_the_others_not_at_all(tmp_path, refuses):
    hung, well = CpuPlugin(tmp_path / "hung.sock"), CpuPlugin(tmp_path / "cpu.sock")
    hung.server.hangs = True
    async with running(tmp_path, refuses=refuses) as node, hung.server, well.server:
        await register(node.socket, "hung.sock", "memory")
        await register(node.socket, "cpu.sock")
        (refusal, seconds), (other, _) = await asyncio.gather(
            node.start(pod("a", annotations=DEDICATED)), node.start(pod("b"))
        )
        assert seconds < SECONDS
        assert (bool(refusal), other) == (refuses, "")
        assert (node.cpus("a"), node.cpus("b")) != (None, None)
        _, seconds = await node.start(pod("c"))
        assert seconds < 0.5
        hung.server.hangs = False


async def test_without_a_plugin_only_pods_that_require_one_are_refused(tmp_path):
    async with running(tmp_path, refuses=True) as node:
        refusal, _ = await node.start(pod("a", annotations=DEDICATED))
        assert refusal == "no resource plugin allocates cpu"
        assert await node.start(pod("b")) == ("", pytest.approx(0, abs=0.1))


async def test_a_pod_that_no_list_has_waits_no_longer_even_if_asked_about_twice(tmp_path):
    async with running(tmp_path) as node, CpuPlugin(tmp_path / "cpu.sock").server:
        await register(node.socket, "cpu.sock")
        before = time.monotonic()
        await node.host.prepare(pod("a").pod)
        await node.host.prepare(pod("a").pod)
        assert time.monotonic() - before < SECONDS + 0.3


async def test_pods_that_run_are_repaired_and_plugins_hear_of_those_that_go(tmp_path, monkeypatch):
    monkeypatch.setattr(host_module, "_GONE_SECONDS", 0.2)
    plugin = CpuPlugin(tmp_path / "cpu.sock")
    async with running(tmp_path) as node, plugin.server:
        node.pods["old"] = pod("old")
        await register(node.socket, "cpu.sock")
        await until(lambda: node.cpus("old"))
        del node.pods["old"]
        await until(lambda: not plugin.given)
        assert node.store.current == {}


async def test_what_a_plugin_changes_is_followed(tmp_path):
    plugin = CpuPlugin(tmp_path / "watched" / "cpu.sock")
    plugin.options.need_reconcile = True
    async with running(tmp_path) as node, plugin.server:
        await until(lambda: node.plugins.get("cpu"))
        await node.start(pod("a"))
        plugin.given["a", "main"] = frozenset({6, 7})
        await until(lambda: node.cpus("a") == "6-7")
        # One that has lost its state is asked anew.
        plugin.given.clear()
        await until(lambda: node.cpus("a") == "2-3")


async def test_hints_are_merged_and_the_plugin_allocates_by_them(tmp_path):
    watched = tmp_path / "watched"
    plugin, policy = CpuPlugin(watched / "cpu.sock", hints=(1, 5)), TopologyPolicy.RESTRICTED
    async with running(tmp_path, topology=policy) as node, plugin.server:
        await until(lambda: node.plugins.get("cpu") and node.plugins.all()[0].options)
        await node.start(pod("a"))
        (_, hinted), (_, allocated) = plugin.asked
        assert not hinted.HasField("hint")
        assert allocated.hint == pb.TopologyHint(nodes=[1], preferred=True)
        assert allocated.resource_requests == {"cpu": 2}


@pytest.mark.parametrize(
    ("endpoint", "resource", "version"),
    [
        ("../cpu.sock", "cpu", "v1alpha1"),
        ("none", "cpu", "v1alpha1"),
        ("cpu.sock", "", "v1alpha1"),
        ("cpu.sock", "cpu", "v2"),
        ("kubelet.sock/..", "cpu", "v1alpha1"),
    ],
)
async def test_what_cannot_be_a_plugin_is_refused(tmp_path, endpoint, resource, version):
    async with running(tmp_path) as node, CpuPlugin(tmp_path / "cpu.sock").server:
        assert await register(node.socket, endpoint, resource, version)
        assert node.plugins.all() == ()


async def test_nobody_is_trusted_in_a_directory_that_everybody_may_write_to(tmp_path):
    async with running(tmp_path) as node, CpuPlugin(tmp_path / "cpu.sock").server:
        tmp_path.chmod(0o777)
        assert "without o+w" in await register(node.socket, "cpu.sock")


async def test_more_than_fits_is_not_kept(tmp_path):
    plugin = CpuPlugin(tmp_path / "cpu.sock")
    plugin.extra.envs["A"] = "x" * (1 << 20)
    async with running(tmp_path) as node, plugin.server:
        await register(node.socket, "cpu.sock")
        await node.start(pod("a"))
        assert node.cpus("a") is None
