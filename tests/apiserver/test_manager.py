"""koord-manager beside a real API server, with the rights of deploy/rbac."""

from __future__ import annotations

from tests.apiserver.real_cluster import RealCluster
from tests.support.cluster import until


def node(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


async def test_from_nothing(cluster: RealCluster) -> None:
    cluster.apply(node("n1"))
    manager = await cluster.started("m1")
    await until(lambda: manager.leads, "it leads")
    found = lambda kind: {one["metadata"]["name"] for one in cluster.get(kind)["items"]}  # noqa: E731
    await until(lambda: found("nodemetrics") == {"n1"}, "NodeMetrics")
    await until(lambda: found("nodeslos") == {"n1"}, "NodeSLOs")
    await until(lambda: found("mutatingwebhookconfigurations") != set(), "webhooks")
