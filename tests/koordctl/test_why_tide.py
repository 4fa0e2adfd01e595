"""``koordctl why tide``: on which side a node is, and why."""

from __future__ import annotations

import pytest
from koord_kube.definitions.tide_node_pool import TIDE_NODE_POOL
from koord_kube.protocol.resources import DEFINITIONS, NODES, TIDE_NODE_POOLS

from tests.koordctl.conftest import Ctl
from tests.support.kube_api import KubeApi

PREFIX = "tide.katalyst.kubewharf.io"
MOVE = (
    '{"to":"online","at":"2026-01-01T00:00:00Z","result":"GivenBack","drain":"u","why":"not done"}'
)


async def test_a_node_of_a_pool(api: KubeApi, ctl: Ctl) -> None:
    labels = {f"{PREFIX}/node-pool": "night", f"{PREFIX}/node-type": "offline"}
    annotations = {"tide.koordinator.sh/last-move": MOVE}
    api.put(NODES, {"metadata": {"name": "n", "labels": labels, "annotations": annotations}})
    api.put(DEFINITIONS, TIDE_NODE_POOL)
    status = {
        "message": "no service needs more",
        "nodes": [{"name": "n", "side": "offline", "state": "Stays", "why": "it rests"}],
    }
    pool = {"metadata": {"name": "night"}, "spec": {"nodeConfigs": {}}, "status": status}
    api.put(TIDE_NODE_POOLS, pool)
    code, out, _ = await ctl("why", "tide", "n")
    assert code == 0
    assert out.splitlines() == [
        "n is offline in TideNodePool night.",
        "Its last move, to online, was given up: not done (2026-01-01T00:00:00Z).",
        "Stays: it rests",
        "The pool: no service needs more",
    ]


@pytest.mark.parametrize("labels", [{}, {f"{PREFIX}/node-pool": "gone"}])
async def test_a_node_of_none(api: KubeApi, ctl: Ctl, labels: dict[str, str]) -> None:
    api.put(NODES, {"metadata": {"name": "n", "labels": labels}})
    code, out, _ = await ctl("why", "tide", "n")
    assert (code, out.startswith("n is in no TideNodePool")) == (1, True)
    api.put(NODES, {"metadata": {"name": "node-7"}})
    code, _, error = await ctl("why", "tide", "node7")
    assert (code, error.endswith('"node7" not found; did you mean node-7?\n')) == (1, True)
