"""The controllers of one term together, against the double of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.protocol.resources import NODE_METRICS, NODE_SLOS, NODES, PODS, RECOMMENDATIONS
from koord_manager.node_metric.core.store import NodeIdentity
from koord_manager.program.config import Settings
from koord_manager.program.gates import gates_of
from koord_manager.program.leading import LeaderControllers, ManagerContext
from koord_manager.slo_config.informer import SLOConfigInformer
from koord_manager.webhooks.cluster_view import ClusterView

from tests.manager.conftest import event_recorder
from tests.support.certificates import HAVE_OPENSSL
from tests.support.kube_api import KubeApi
from tests.support.metrics_service import Manager, make_manager
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl makes the certificates")

NODE = {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "8", "memory": "8Gi"}}}
TARGET = {"type": "podSelector", "podSelector": {"matchLabels": {"app": "web"}}}
STATUS = b'{"nodeMetric": {"nodeUsage": {"resources": {"cpu": "1", "memory": "1Gi"}}}}'


def _view() -> ClusterView:
    raise AssertionError("only profiles look at the cluster")


class Leader:
    """A term, and the service that nodes report to."""

    def __init__(self, api: KubeApi, client: Client, folder: Path) -> None:
        self.api = api
        self.manager: Manager = make_manager(folder)
        self.manager.lead(7)
        self.configs = SLOConfigInformer(client, event_recorder(client))
        gates, _ = gates_of("")
        shared = ManagerContext(
            self.configs,
            _view,
            gates | {"ResourceMetricsAPI": True, "ServiceProfiles": True},
            self.manager.service,
            event_recorder(client),
            lambda _line: None,
        )
        self.term = LeaderControllers(
            Settings(noderesource_interval=0.02, recommendation_interval=0.02), client, shared
        )

    def reports(self, status: bytes) -> None:
        """As if the node had, straight to this manager."""
        known = self.term.nodes["n1"]
        self.manager.nodes["n1"] = NodeIdentity(known.uid, known.created)
        self.manager.put("n1", status=status)
        self.term.received("n1", status, self.manager.now)

    @property
    def knows(self) -> bytes:
        """What is reckoned with; nothing of the object's status, which nobody has written."""
        assert self.term.resources is not None
        status = self.term.resources.status("n1") or b"null"
        return b"" if status == b"null" else status

    def owners(self) -> set[str]:
        """Of the objects that the node has."""
        found = [self.api.get(kind, "n1")["metadata"] for kind in (NODE_METRICS, NODE_SLOS)]
        return {owner["uid"] for meta in found for owner in meta["ownerReferences"]}


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[Leader]:
    async with (
        KubeApi() as api,
        Client(Cluster(api.url), Limits(qps=0)) as client,
        asyncio.TaskGroup() as group,
    ):
        api.put(NODES, NODE)
        api.installed.add(RECOMMENDATIONS)
        api.put(RECOMMENDATIONS, {"metadata": {"name": "web"}, "spec": {"target": TARGET}}, "ns")
        api.put(PODS, {"metadata": {"name": "web", "labels": {"app": "web"}}}, "ns")
        made = Leader(api, client, tmp_path)
        tasks = [group.create_task(one.run()) for one in (made.configs, made.term)]
        await until(lambda: made.term.figures(True, 0).passes and made.term.nodes)
        yield made
        for task in tasks:
            task.cancel()


async def test_all_controllers_follow_nodes_and_pods_with_one_watch_each(leader: Leader) -> None:
    await until(lambda: leader.api.count("create", "nodeslos"))
    await until(lambda: leader.api.get(RECOMMENDATIONS, "web", "ns").get("status"))
    for plural in ("/nodes", "/pods"):
        asked = [request.verb for request in leader.api.asked if request.path.endswith(plural)]
        assert asked == ["watch"]
    condition = leader.api.get(RECOMMENDATIONS, "web", "ns")["status"]["conditions"][0]
    assert condition["reason"] == "NoUsage", "it knows of the pod"


@pytest.mark.parametrize("unseen", [True, False])
async def test_a_node_that_is_made_again_under_its_name_begins_anew(
    leader: Leader, unseen: bool
) -> None:
    api, store = leader.api, leader.manager.service.store
    old = leader.term.nodes["n1"].uid
    leader.reports(STATUS)
    before = store.get("n1")
    assert before is not None
    await until(lambda: api.count("create", "nodeslos") and api.count("create", "nodemetrics"))
    assert leader.owners() == {old}
    if unseen:
        api.expire_watches()
    api.delete(NODES, "n1")
    api.put(NODES, NODE)
    new = api.get(NODES, "n1")["metadata"]["uid"]
    await until(lambda: leader.term.nodes.get("n1") and leader.term.nodes["n1"].uid == new)
    assert (store.get("n1"), leader.knows) == (None, b"")
    assert leader.manager.service.receiver.bytes == 0
    await until(lambda: leader.owners() == {new})
    leader.reports(STATUS)
    after = store.get("n1")
    assert after is not None
    assert after.uid != before.uid
    assert leader.knows == STATUS
