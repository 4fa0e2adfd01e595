"""Labels of the Node: only ours are written, and only what differs."""

from __future__ import annotations

from typing import Any

import koord_kube.connect
import pytest
from koord_devices.node_labels import change, write
from koord_kube.connect import ConnectError

OURS = "devices.koordinator.sh/huawei.count"
GONE = "devices.koordinator.sh/rdma.count"
KOORDINATORS = "node.koordinator.sh/gpu-model"


class Api:
    """The Node, and what is written to it."""

    def __init__(self) -> None:
        self.labels = {OURS: "7", GONE: "1", KOORDINATORS: "x", "a": "b"}
        self.patches: list[Any] = []

    async def __aenter__(self) -> Api:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def get(self, resource: Any, name: str) -> dict[str, Any]:
        assert (resource.kind, name) == ("Node", "n1")
        return {"metadata": {"labels": self.labels}}

    async def patch(self, resource: Any, name: str, change: Any) -> None:
        self.patches.append((resource.kind, name, change))


def test_what_is_changed() -> None:
    had = {OURS: "7", GONE: "1", KOORDINATORS: "x", "a": "b"}
    assert change(had, {OURS: "8", KOORDINATORS: "y"}) == {OURS: "8", GONE: None}
    assert change({OURS: "8"}, {OURS: "8"}) == {}


def test_it_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api()

    async def connect(kubeconfig: str) -> Api:
        return api

    monkeypatch.setattr(koord_kube.connect, "connect", connect)
    assert write("n1", {OURS: "8"})
    assert api.patches == [("Node", "n1", {"metadata": {"labels": {OURS: "8", GONE: None}}})]
    api.labels = {OURS: "8"}
    write("n1", {OURS: "8"})
    assert len(api.patches) == 1


def test_without_a_cluster_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(kubeconfig: str) -> Api:
        raise ConnectError("there is no cluster")

    monkeypatch.setattr(koord_kube.connect, "connect", connect)
    assert not write("n1", {OURS: "8"})
