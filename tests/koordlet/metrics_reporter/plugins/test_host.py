"""Real gRPC plugins on sockets: good, hung, flooding and crashing ones, and Katalyst's own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from koordlet.metrics_reporter.plugins.host import (
    DEADLINE_SECONDS,
    KIND,
    SETTLE_SECONDS,
    STAY_SECONDS,
    VERSIONS,
    ReporterPluginHost,
)
from koordlet.plugin_watcher.core.registrations import RegisteredPlugin
from koordlet.plugin_watcher.watcher import PluginWatcher

from tests.support.reporter_plugins import ReporterPlugin, content, labelled

PLUGIN = os.environ.get("KATALYST_REPORTER_PLUGIN", "")


class Node:
    """A host whose time is the test's."""

    def __init__(self) -> None:
        self.at = 0.0
        self.host = ReporterPluginHost(now=lambda: self.at)
        self.at = SETTLE_SECONDS

    def follow(self, *sockets: Path) -> None:
        self.host.follow(
            tuple(
                RegisteredPlugin(KIND, path.stem, str(path), "v1alpha1", (1, number, 1))
                for number, path in enumerate(sockets)
            )
        )

    def labels(self) -> dict[str, str]:
        reported = self.host.reported()
        assert reported is not None
        return {name: fields["metadata"]["labels"]["a"] for name, fields in reported.items()}


@asynccontextmanager
async def asking(node: Node) -> AsyncIterator[Callable[[], Any]]:
    """Rounds of a host, with its streams until the end."""
    async with asyncio.TaskGroup() as group:
        yield lambda: node.host.ask_all(group)
        node.follow()
        await node.host.ask_all(group)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


def sent(*messages: Message, ends: bool = False) -> Callable[[], AsyncIterator[Message]]:
    async def stream() -> AsyncIterator[Message]:
        for message in messages:
            yield message
        while not ends:
            await asyncio.sleep(0.1)

    return stream


async def test_a_hung_plugin_delays_no_other_and_its_last_content_stays_for_a_time(
    tmp_path: Path,
) -> None:
    node, hung, well = Node(), ReporterPlugin(labelled("h")), ReporterPlugin(labelled("w"))
    async with hung.server(tmp_path / "h.sock") as server, well.server(tmp_path / "w.sock"):
        node.follow(tmp_path / "h.sock", tmp_path / "w.sock")
        async with asking(node) as ask:
            await ask()
            assert node.labels() == {"h": "h", "w": "w"}
            server.hangs, well.answer = True, labelled("w2")
            node.at += STAY_SECONDS - 1
            async with asyncio.timeout(DEADLINE_SECONDS + 2):
                await ask()
            assert node.labels() == {"h": "h", "w": "w2"}
            node.at += 1
            assert node.labels() == {"w": "w2"}
            server.hangs = False


async def test_a_crashed_plugin_leaves_what_it_said_until_it_is_forgotten(tmp_path: Path) -> None:
    node, plugin = Node(), ReporterPlugin(labelled("p"))
    socket = tmp_path / "p.sock"
    async with asking(node) as ask:
        async with plugin.server(socket):
            node.follow(socket)
            await ask()
        gone = RegisteredPlugin(KIND, "p", str(socket), "v1alpha1", (1, 0, 1), connected=False)
        node.host.follow((gone,))
        await ask()
        assert node.labels() == {"p": "p"}
        node.host.follow(())
        assert node.labels() == {}


async def test_what_a_plugin_sends_counts_at_once_and_while_its_stream_is_open(
    tmp_path: Path,
) -> None:
    node, plugin = Node(), ReporterPlugin(sends=sent(labelled("1"), labelled("2")))
    async with plugin.server(tmp_path / "p.sock"):
        node.follow(tmp_path / "p.sock")
        async with asking(node) as ask:
            await ask()
            await until(lambda: node.labels() == {"p": "2"})
            node.at += STAY_SECONDS - 1
            await ask()
            node.at += STAY_SECONDS - 1
            assert node.labels() == {"p": "2"}


async def test_a_flood_is_cut_off(tmp_path: Path) -> None:
    taken = 0

    async def flood() -> AsyncIterator[Message]:
        nonlocal taken
        while True:
            taken += 1
            yield labelled(str(taken))

    node, plugin = Node(), ReporterPlugin(labelled("asked"), flood)
    async with plugin.server(tmp_path / "p.sock"):
        node.follow(tmp_path / "p.sock")
        async with asking(node) as ask:
            await ask()
            await until(lambda: taken > 60)
            await asyncio.sleep(0.1)
            # It is asked all the same.
            await ask()
            assert node.labels() == {"p": "asked"}


async def test_too_long_answers_and_lies_are_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node()
    long = ReporterPlugin(labelled("x" * 200_000))
    liar = ReporterPlugin(content(("Status", "TopologyPolicy", "None")))
    async with long.server(tmp_path / "long.sock"), liar.server(tmp_path / "liar.sock"):
        node.follow(tmp_path / "liar.sock", tmp_path / "long.sock")
        async with asking(node) as ask:
            await ask()
            await ask()
            assert node.host.reported() == {"liar": {}}
    # Once each, however often they are asked.
    assert sorted(caplog.messages) == [
        "fields of a reporter plugin left out",
        "reporter plugin failed",
    ]


def test_at_first_plugins_may_still_register() -> None:
    node = Node()
    node.at = SETTLE_SECONDS - 1
    assert node.host.reported() is None


@pytest.mark.skipif(not PLUGIN, reason="needs $KATALYST_REPORTER_PLUGIN")
async def test_a_reporter_by_katalysts_skeleton_runs_unchanged(tmp_path: Path) -> None:
    zones = [[{"type": "GPU", "name": name, "resources": {}}] for name in "ab"]
    environ = {**os.environ, "ZONES": json.dumps(zones[0]), "LATER": json.dumps(zones[1])}
    socks, host = tmp_path / "socks", ReporterPluginHost()
    watcher = PluginWatcher(str(socks))
    watcher.follow(KIND, VERSIONS, host.follow)
    host._began -= SETTLE_SECONDS
    with (tmp_path / "log").open("wb") as log:
        started = [
            subprocess.Popen(
                [PLUGIN, socks, name], env={**environ, "UPDATE": seconds}, stdout=log, stderr=log
            )
            for name, seconds in (("gpus", "3"), ("fake-reporter-plugin", ""))
        ]
    try:
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            tasks = [group.create_task(watcher.run()), group.create_task(host.run())]
            wanted = [{"gpus": {"status": {"topologyZone": zone}}} for zone in zones]
            while wanted:
                # What the skeleton's stub sends, it does not answer.
                wanted = [content for content in wanted if content != host.reported()]
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
    finally:
        for process in started:
            process.kill()
            process.wait()
