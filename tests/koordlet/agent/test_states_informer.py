"""What koordlet knows of its cluster and its kubelet."""

from __future__ import annotations

import asyncio
from typing import Any

from koord_kube.client import Client, Cluster
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import NODES
from koord_service.log_deduplicator import LogDeduplicator
from koordlet.agent import states_informer
from koordlet.agent.states_informer import StatesInformer
from koordlet.states_informer.node_objects import NodeObjects

from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE

CONFIGZ = b'{"kubeletconfig": {"cpuManagerPolicy": "static"}}'


class FakeKubelet:
    def __init__(self) -> None:
        self.asked = 0

    async def configz(self) -> bytes:
        self.asked += 1
        return CONFIGZ

    async def close(self) -> None:
        pass


async def test_the_kubelet_is_asked_once_it_is_known_where_it_is(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(states_informer, "_NODE_SECONDS", 0.01)
    kubelet: Any = FakeKubelet()
    reported = asyncio.Event()

    def changed(kind: str, found: Object | None) -> None:
        reported.set()

    async with KubeApi() as api:
        client = Client(Cluster(api.url))
        state = NodeObjects(client, "n1", f"{tmp_path}/states.json", lambda _: None, changed)
        side = StatesInformer("n1", client, state, kubelet, LogDeduplicator())
        async with asyncio.TaskGroup() as group:
            task = group.create_task(side.run())
            await api.wait_for("watch", 1, "nodes")
            await asyncio.sleep(0.05)
            assert (kubelet.asked, side.kubelet_config) == (0, None)
            api.put(NODES, {"metadata": {"name": "n1"}})
            async with asyncio.timeout(PATIENCE):
                while side.kubelet_config is None:
                    await asyncio.sleep(0.01)
            assert side.kubelet_config.cpu_policy == "static"
            assert reported.is_set()
            task.cancel()
    assert [one.message for one in caplog.records] == []
