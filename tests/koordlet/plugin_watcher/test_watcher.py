"""Real gRPC servers on sockets of a directory that is watched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from koord_proto.plugin_registration_pb2 import PluginInfo
from koordlet.plugin_watcher import watcher
from koordlet.plugin_watcher.client import PluginCallError, PluginClient
from koordlet.plugin_watcher.core.registrations import RegisteredPlugin
from koordlet.plugin_watcher.watcher import PluginWatcher

from tests.support.plugin_server import PluginServer

INFO = PluginInfo(type="EvictionPlugin", name="numa", supported_versions=["v1alpha1"])


@asynccontextmanager
async def _watching(
    directory: Path, changed: Callable[[tuple[RegisteredPlugin, ...]], None]
) -> AsyncIterator[None]:
    watched = PluginWatcher(str(directory))
    watched.follow("EvictionPlugin", ("v1alpha1",), changed)
    task = asyncio.create_task(watched.run())  # noqa: TID251 - ended below
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.01)


async def test_a_plugin_registers_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "LOOK_SECONDS", 0.02)
    heard: list[tuple[RegisteredPlugin, ...]] = []
    directory = tmp_path / "late"
    async with _watching(directory, heard.append):
        await asyncio.sleep(0.05)  # not there yet
        directory.mkdir()
        (directory / "file.sock").touch()  # no socket
        async with PluginServer(directory / "a.sock", INFO) as first:
            await _until(lambda: bool(first.notified))
            assert first.notified[0].plugin_registered
            assert heard[-1][0].endpoint == str(directory / "a.sock")
            async with PluginServer(directory / "b.sock", INFO) as second:
                await _until(lambda: bool(second.notified))
                assert "another socket" in second.notified[0].error
        await _until(lambda: not heard[-1][0].connected)
        async with PluginServer(directory / "a.sock", INFO):
            await _until(lambda: heard[-1][0].connected)
        assert heard[-1][0].identity != heard[0][0].identity


async def test_nobody_is_trusted_in_a_directory_that_everybody_may_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watcher, "LOOK_SECONDS", 0.02)
    heard: list[tuple[RegisteredPlugin, ...]] = []
    async with PluginServer(tmp_path / "a.sock", INFO), _watching(tmp_path, heard.append):
        await _until(lambda: bool(heard))
        tmp_path.chmod(0o777)
        await _until(lambda: not heard[-1][0].connected)
    assert caplog.messages.count("plugin not registered") == 1


async def test_a_silent_plugin_is_left_alone_for_longer_each_time(tmp_path: Path) -> None:
    now = 0.0
    method = "/pluginregistration.Registration/GetInfo"
    async with PluginServer(tmp_path / "a.sock", INFO) as server:
        client = PluginClient(str(tmp_path / "a.sock"), now=lambda: now, most_bytes=1000)
        assert (await client.call(method, b"", PluginInfo, 5)).name == "numa"
        server.hangs = True
        for pause in (5, 10, 20):
            with pytest.raises(PluginCallError, match="DEADLINE_EXCEEDED"):
                await client.call(method, b"", PluginInfo, 0.05)
            assert client.pause == pause
            with pytest.raises(PluginCallError, match="did not answer"):
                await client.call(method, b"", PluginInfo, 0.05)
            now += pause
        server.hangs = False
        assert (await client.call(method, b"", PluginInfo, 5)).name == "numa"
        server.info = PluginInfo(name="x" * 2000)
        with pytest.raises(PluginCallError, match="RESOURCE_EXHAUSTED"):
            await client.call(method, b"", PluginInfo, 5)
        with pytest.raises(PluginCallError) as refused:
            await client.call("/evictionplugin.v1alpha1.EvictionPlugin/X", b"", PluginInfo, 5)
        assert refused.value.unimplemented
        assert client.pause == 0
        await client.close()
