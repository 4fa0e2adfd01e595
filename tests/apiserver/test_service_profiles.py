"""Profiles of services beside a real API server, with the rights of deploy/components."""

from __future__ import annotations

from typing import Any

from tests.apiserver.real_cluster import RealCluster
from tests.support.manager_program import QUICK
from tests.support.waiting import until

GATE = "--feature-gates=ServiceProfiles=true"
SPEC = """
targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
systemIndicator:
- {name: cpi, indicators: [{indicatorLevel: UpperBound, value: 1.4}]}
"""


async def test_a_config_map_reaches_a_node_through_a_change_of_leader(
    cluster: RealCluster,
) -> None:
    cluster.namespace("shop")
    cluster.busy_node("n9", "shop")
    labels = {"run": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    deployment = {"selector": {"matchLabels": labels}, "template": template}
    meta = {"name": "web", "namespace": "shop"}
    marked = {**meta, "labels": {"koordinator.sh/configmap-type": "service-profile"}}
    cluster.kubectl("label", "pod", "web-n9", "-n", "shop", "run=web")
    cluster.apply(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": deployment},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": marked, "data": {"spec": SPEC}},
    )

    def services() -> list[Any]:
        if "n9" not in cluster.names("nodeslos"):
            return []
        spec = cluster.get("nodeslo", "n9")["spec"]
        return list(spec.get("extensions", {}).get("pykoord", {}).get("services", []))

    first = await cluster.started("m1", *QUICK, GATE)
    await until(lambda: [one["targets"] for one in services()] == [{"cpi": 1.4}], "its target")
    second = await cluster.started("m2", *QUICK, GATE)
    version = cluster.get("nodeslo", "n9")["metadata"]["resourceVersion"]
    first.kill()
    await until(lambda: second.leads, "the other leads")
    assert cluster.get("nodeslo", "n9")["metadata"]["resourceVersion"] == version
    changed = {"data": {"spec": SPEC.replace("1.4", "1.5")}}
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": marked, **changed})
    await until(lambda: [one["targets"] for one in services()] == [{"cpi": 1.5}], "the new one")
    cluster.kubectl("delete", "cm", "web", "-n", "shop")
    await until(lambda: services() == [], "gone with its profile")
