from __future__ import annotations

import json

from koord_kube.client import Client, Cluster
from koord_kube.protocol.resources import NODES
from koord_manager.node_objects.core.nodes import ClusterNode, read_node
from koord_manager.node_taints.controller import NodeTaintController
from koord_manager.node_taints.core.taints import HOLD_SECONDS
from koord_manager.node_taints.reported_conditions import ReportedConditions

from tests.manager.conftest import event_recorder
from tests.manager.node_taints.core.test_taints import HOT, THEIRS, status
from tests.support.kube_api import KubeApi


class Nodes:
    """The nodes of the API server, read before each look."""

    synced = True

    def __init__(self, api: KubeApi, count: int) -> None:
        self._api = api
        self.names = [f"n{number}" for number in range(count)]
        for name in self.names:
            api.put(NODES, {"metadata": {"name": name}, "spec": {"taints": [THEIRS]}})

    @property
    def objects(self) -> dict[str, ClusterNode]:
        return {
            name: read_node(json.dumps(self._api.get(NODES, name)).encode()) for name in self.names
        }

    async def wait_synced(self) -> None:
        pass


async def test_a_node_is_tainted_while_it_reports_a_condition() -> None:
    hot = status({"name": "Hot", "effects": ["NoSchedule"]})
    async with KubeApi() as api, Client(Cluster(api.url)) as client:
        statuses, warnings, now = {"n0": hot, "n1": hot}, list[str](), 0.0
        nodes = Nodes(api, 5)
        controller = NodeTaintController(
            client,
            nodes,
            [ReportedConditions(nodes, statuses.get)],
            event_recorder(client),
            known=nodes.wait_synced,
            on_warning=warnings.append,
            monotonic=lambda: now,
        )

        async def taints() -> list[list[object]]:
            await controller.look()
            for name in nodes.names:
                await controller._write(name)
            found = [api.get(NODES, name)["spec"].get("taints") for name in nodes.names[:2]]
            return [entry or [] for entry in found]

        assert await taints() == [[THEIRS, HOT.document], [THEIRS]]
        assert warnings == ["nodetaint: 1 nodes wait, since 20 % of all have taints"]
        now = HOLD_SECONDS - 1
        statuses["n1"] = hot + b"\n"  # a new report; the other is silent
        assert await taints() == [[THEIRS, HOT.document], [THEIRS]]
        now = HOLD_SECONDS
        assert await taints() == [[THEIRS], [THEIRS]], "the place is free once the taint has gone"
        assert await taints() == [[THEIRS], [THEIRS, HOT.document]]
        assert controller.problem == ""
