"""koordlet exports its node as Katalyst's object to a real API server, with the rights of deploy/.

The definition is written here after Katalyst's: cluster-scoped, short name kcnr, with a status.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.real_cluster import RealCluster
from tests.support.koordlet_programs import StatusKoordlet
from tests.support.processes import until
from tests.support.reporter_plugins import ReporterPlugin, content, served

LIST, TEXT = {"type": "array"}, {"type": "string"}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
GROUP = "node.katalyst.kubewharf.io"
RECLAIMED = "resource.katalyst.kubewharf.io/reclaimed_"
NAME = f"customnoderesources.{GROUP}"
RESOURCES = {"type": "object", "properties": {"allocatable": OPEN, "capacity": OPEN}}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NAME},
    "spec": {
        "group": GROUP,
        "scope": "Cluster",
        "names": {
            "kind": "CustomNodeResource",
            "listKind": "CustomNodeResourceList",
            "plural": "customnoderesources",
            "shortNames": ["kcnr"],
        },
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "nodeResourceProperties": {**LIST, "items": OPEN},
                                    "taints": {**LIST, "items": OPEN},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {
                                    "resources": RESOURCES,
                                    "topologyZone": {**LIST, "items": OPEN},
                                    "topologyPolicy": TEXT,
                                    "conditions": {**LIST, "items": OPEN},
                                    "nodeMetricStatus": OPEN,
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture
def koordlet(installed: RealCluster, tmp_path: Path) -> Iterator[StatusKoordlet]:
    installed.ready_node("n1", {"cpu": "8", "memory": "16Gi"})
    config = installed.server.kubeconfig("koordlet", installed.token("koordlet"))
    made = StatusKoordlet(
        tmp_path,
        tmp_path / "hooks",
        f"--kubeconfig={config}",
        "--node-name=n1",
        "--feature-gates=CustomNodeResource=true,ReporterPlugins=true",
        f"--plugin-registration-dir={tmp_path / 'socks'}",
        "--collect-res-used-interval=1",
        "--node-topology-sync-interval=1",
        "--disable-query-kubelet-config",
    )
    (tmp_path / "hooks").mkdir()
    (tmp_path / "cpu_manager_state").write_text('{"policyName":"none"}')
    with plugins(tmp_path / "socks"):
        made.start()
        yield made
        made.close()


def plugins(sockets: Path) -> AbstractContextManager[None]:
    """One that reports a GPU, and one with a label that no API server takes."""
    sockets.mkdir()
    gpu = [{"type": "GPU", "name": "0", "resources": {"capacity": {"example.com/gpu": "1"}}}]
    numa = [{"type": "Socket", "name": "0", "resources": {"capacity": {"example.com/nic": "1"}}}]
    good = content(
        ("Status", "TopologyZone", gpu + numa),
        ("Status", "Resources", {"capacity": {f"{RECLAIMED}millicpu": "9"}}),
        ("Metadata", "Labels", {"gpus": "1"}),
    )
    bad = content(("Metadata", "Labels", {"not a key": "", "bad": "1"}))
    return served(sockets, good=ReporterPlugin(good), bad=ReporterPlugin(bad))


def reported(cluster: RealCluster) -> dict[str, Any]:
    """NUMA nodes of the NodeResourceTopology, with what can be allocated and what there is."""
    zones = cluster.get("noderesourcetopologies", "n1")["zones"]
    return {
        zone["name"].removeprefix("node-"): {
            kind: {resource["name"]: resource[kind] for resource in zone["resources"]}
            for kind in ("allocatable", "capacity")
        }
        for zone in zones
    }


def exported(cluster: RealCluster) -> dict[str, Any]:
    """The same of the exported object; nothing while there is none."""
    try:
        status = cluster.get("kcnr", "n1").get("status", {})
    except RuntimeError:
        return {}
    zones = status.get("topologyZone", [])
    return {
        numa["name"]: numa["resources"]
        for zone in zones
        for numa in (zone["children"] if zone["type"] == "Socket" else [zone])
        if numa["type"] == "Numa"
    }


def test_the_node_is_exported_where_the_definition_is(
    installed: RealCluster, koordlet: StatusKoordlet
) -> None:
    cluster, definition = installed, json.dumps(DEFINITION)

    def problems() -> list[dict[str, Any]]:
        return [
            one for one in koordlet.events("cannot publish") if one["kind"] == "CustomNodeResource"
        ]

    # Without it: one line, and the other reports go on.
    until(lambda: len(problems()) == 1)
    assert "no such kind" in problems()[0]["reason"]
    until(lambda: reported_now(cluster))
    cluster.kubectl("apply", "-f", "-", stdin=definition)
    until(lambda: bool(exported(cluster)), seconds=150.0)
    assert exported(cluster) == reported(cluster) != {}
    status = cluster.get("kcnr", "n1")["status"]
    nothing = {f"{RECLAIMED}millicpu": "0", f"{RECLAIMED}memory": "0"}
    assert status["resources"] == {"allocatable": nothing, "capacity": nothing}
    assert [one["type"] for one in status["conditions"]] == ["AgentReady"]
    # What the manager offers arrives with the Node's next change; what others set stays.
    properties = '{"spec": {"nodeResourceProperties": [{"propertyName": "cis"}]}}'
    cluster.kubectl("patch", "kcnr", "n1", "--type=merge", "-p", properties)
    cluster.kubectl("label", "kcnr", "n1", "team=a")
    batch = '{"status": {"allocatable": {"kubernetes.io/batch-cpu": "2500"}}}'
    cluster.kubectl("patch", "node", "n1", "--subresource=status", "-p", batch)

    def offered() -> str:
        return cluster.get("kcnr", "n1")["status"]["resources"]["allocatable"][
            f"{RECLAIMED}millicpu"
        ]

    until(lambda: offered() == "2500")
    there = cluster.get("kcnr", "n1")
    assert there["spec"] == {"nodeResourceProperties": [{"propertyName": "cis"}]}
    # So do fields of a plugin, as far as they are not ours; a bad one costs nobody else.
    assert there["metadata"]["labels"] == {"team": "a", "gpus": "1"}
    zones = there["status"]["topologyZone"]
    assert zones[0]["resources"] == {"capacity": {"example.com/nic": "1"}}
    assert zones[-1]["type"] == "GPU"
    assert [event["plugin"] for event in koordlet.events("reporter plugin withheld")] == ["bad"]
    # It goes with its definition, and comes again.
    cluster.kubectl("delete", "crd", NAME)
    until(lambda: len(problems()) == 2, seconds=150.0)
    cluster.kubectl("apply", "-f", "-", stdin=definition)
    until(lambda: bool(exported(cluster)), seconds=150.0)
    assert exported(cluster) == reported(cluster)
    assert offered() == "2500"
    assert "forbidden" not in koordlet.said.lower()


def reported_now(cluster: RealCluster) -> bool:
    try:
        return bool(reported(cluster))
    except RuntimeError:
        return False
