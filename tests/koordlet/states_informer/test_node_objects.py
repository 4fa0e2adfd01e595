"""This node's objects, from the API server's double."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from koord_kube.client import Client, Cluster
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import NODE_SLOS, NODES
from koordlet.states_informer.node_objects import NodeObjects

from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE
from tests.support.waiting import until

NODE: Object = {
    "kind": "Node",
    "metadata": {"name": "n1", "uid": "u1", "managedFields": [{}], "labels": {"a": "b"}},
    "status": {"allocatable": {"cpu": "4"}, "images": [{"names": ["x"]}], "conditions": [{}]},
}


class Heard:
    def __init__(self) -> None:
        self.objects: list[tuple[str, Object | None]] = []
        self.lines: list[str] = []
        self.event = asyncio.Event()

    def changed(self, kind: str, found: Object | None) -> None:
        self.objects.append((kind, found))
        self.event.set()

    async def until(self, kind: str) -> Object | None:
        async with asyncio.timeout(PATIENCE):
            while True:
                for one, found in reversed(self.objects):
                    if one == kind:
                        return found
                self.event.clear()
                await self.event.wait()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def api() -> AsyncIterator[KubeApi]:
    async with KubeApi() as api:
        yield api


SLO = {"kind": "NodeSLO", "metadata": {"name": "n1"}, "spec": {"a": 1}}


@asynccontextmanager
async def watching(api: KubeApi, file: Path, heard: Heard) -> AsyncIterator[NodeObjects]:
    async with Client(Cluster(api.url)) as client:
        state = NodeObjects(client, "n1", str(file), heard.lines.append, heard.changed)
        state.recall()
        task = asyncio.get_running_loop().create_task(state.run())
        yield state
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_only_what_is_used_is_watched_and_stored(api, tmp_path, heard):
    api.put(NODES, NODE)
    async with watching(api, tmp_path / "cluster.json", heard) as state:
        uid = api.get(NODES, "n1")["metadata"]["uid"]
        assert await heard.until("Node") == {
            "metadata": {"name": "n1", "uid": uid, "labels": {"a": "b"}},
            "status": {"allocatable": {"cpu": "4"}},
        }
        assert set(state.ages()) == {"Node", "NodeSLO", "NodeMetric"}
        age = state.ages()["Node"]
        assert age.age_seconds is not None
        assert age.problem == ""


async def test_changes_of_unused_fields_are_ignored(api, tmp_path, heard):
    api.put(NODES, NODE)
    async with watching(api, tmp_path / "cluster.json", heard):
        await heard.until("Node")
        api.put(NODES, NODE | {"status": NODE["status"] | {"conditions": [{"at": "now"}]}})
        api.put(NODE_SLOS, SLO)
        await heard.until("NodeSLO")
    assert [kind for kind, _ in heard.objects] == ["Node", "NodeSLO"]


async def test_after_a_restart_without_the_api_server_the_file_counts(api, tmp_path, heard):
    file = tmp_path / "state/cluster.json"
    api.put(NODE_SLOS, SLO)
    async with watching(api, file, heard):
        known = await heard.until("NodeSLO")
    again = Heard()
    api.fail(times=1000, status=503)
    async with watching(api, file, again) as state:
        assert again.objects == [("NodeSLO", known)]
        assert state.get("NodeSLO") == known
        assert state.ages()["NodeSLO"].age_seconds is None


@pytest.mark.parametrize("text", ["{", "[]", '{"NodeSLO": {"metadata": {"name": "other"}}}'])
async def test_a_file_that_says_nothing_about_this_node(api, tmp_path, heard, text):
    file = tmp_path / "cluster.json"
    file.write_text(text)
    api.put(NODES, NODE)
    async with watching(api, file, heard):
        assert await heard.until("Node")
    assert [kind for kind, _ in heard.objects] == ["Node"]
    assert len(heard.lines) == (0 if "other" in text else 1)


async def test_an_object_that_is_deleted(api, tmp_path, heard):
    api.put(NODE_SLOS, SLO)
    async with watching(api, tmp_path / "cluster.json", heard) as state:
        await heard.until("NodeSLO")
        heard.objects.clear()
        api.delete(NODE_SLOS, "n1")
        assert await heard.until("NodeSLO") is None
        assert state.get("NodeSLO") is None


async def test_a_kind_without_its_crd_is_known_not_to_be(api, tmp_path, heard):
    api.installed.discard(NODE_SLOS)
    async with watching(api, tmp_path / "cluster.json", heard) as state:
        await until(lambda: state.ages()["NodeSLO"].absent)
        assert "CRD" in state.ages()["NodeSLO"].problem


async def test_a_file_that_cannot_be_written_is_reported_once(api, tmp_path, heard):
    (tmp_path / "file").write_text("")
    api.put(NODES, NODE)
    async with watching(api, tmp_path / "file/cluster.json", heard):
        await heard.until("Node")
        heard.objects.clear()
        api.put(NODES, {"metadata": {"name": "n1"}})
        await heard.until("Node")
    assert len([line for line in heard.lines if "has to wait" in line]) == 1
