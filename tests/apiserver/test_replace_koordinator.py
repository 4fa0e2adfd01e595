"""The commands of docs/replace-koordinator.md, as they stand, where Koordinator's objects are.

Nothing runs in the workloads, and there are no controllers: what undoes a rollout is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.real_cluster import ROOT, RealCluster
from tests.apiserver.test_outside import Machine
from tests.docs.test_replace_koordinator import BLOCKS
from tests.support.koordinator_arguments import CHART, COMMANDS
from tests.support.koordinator_objects import BINDINGS, CONTAINERS, ROLES
from tests.support.kube_apiserver import KubeApiserver
from tests.support.manager_program import NAMESPACE

PLACES = {"RELEASE-NAMESPACE": NAMESPACE, "REGISTRY": "registry.test", "NODE": "node-1"}
SETTINGS = {"colocation-config": '{"enable": false}'}
RECORD = "sh.helm.release.v1.koordinator.v1"
HELM = '#!/bin/sh\necho "$@" >> helm-calls\n'
"""Stands for Helm, since Koordinator's chart is not here: it only notes what it is asked."""
RBAC = "rbac.authorization.k8s.io"
GROUP = "scheduling.koordinator.sh"
CONFIGURATIONS = {
    "koord-scheduler-config": """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles: [{schedulerName: koord-scheduler}]
    """,
    "koord-descheduler-config": """
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerConfiguration
        profiles: [{name: koord-descheduler}]
    """,
}


def named(kind: str, name: str, api: str = "v1", **fields: Any) -> dict[str, Any]:
    meta = (
        {"name": name} if api.startswith((RBAC, "api")) else {"name": name, "namespace": NAMESPACE}
    )
    return {"apiVersion": api, "kind": kind, "metadata": meta} | fields


def workload(kind: str, name: str) -> dict[str, Any]:
    container = {
        "name": CONTAINERS[kind.lower(), name],
        "image": f"registry.test/koordinator-sh/{name}:v1.8.0",
        "command": [COMMANDS[name]],
        "args": list(CHART[name]),
    }
    labels = {"koord-app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return named(kind, name, "apps/v1", spec=spec)


def explanations() -> dict[str, Any]:
    """The one definition that Koordinator has alone."""
    names = {"kind": "ScheduleExplanation", "plural": "scheduleexplanations"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
    spec = {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]}
    return named(
        "CustomResourceDefinition",
        f"{names['plural']}.{GROUP}",
        "apiextensions.k8s.io/v1",
        spec=spec,
    )


def install_koordinator(cluster: RealCluster) -> None:
    """Objects of its chart, as far as the page touches them."""
    cluster.namespace(NAMESPACE)
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
    kinds = {"deployment": "Deployment", "daemonset": "DaemonSet"}
    record = named("Secret", RECORD, data={"release": "eA=="})
    record["metadata"]["labels"] = {"owner": "helm", "name": "koordinator"}
    cluster.apply(
        explanations(),
        record,
        named("ConfigMap", "slo-controller-config", data=SETTINGS),
        *(named("ConfigMap", name, data={name: text}) for name, text in CONFIGURATIONS.items()),
        *(workload(kinds[kind], name) for kind, name in CONTAINERS),
        *(named("ClusterRole", name, f"{RBAC}/v1", rules=[]) for name in ROLES),
        *(named("ClusterRoleBinding", name, f"{RBAC}/v1", roleRef=role) for name in BINDINGS),
    )


def images(cluster: RealCluster) -> dict[str, str]:
    items = cluster.get("deployments,daemonsets", "-n", NAMESPACE)["items"]
    return {
        item["metadata"]["name"]: item["spec"]["template"]["spec"]["containers"][0]["image"]
        for item in items
    }


def commands(block: str) -> str:
    for word, meant in PLACES.items():
        block = block.replace(word, meant)
    lines = (line for line in block.splitlines() if "rollout undo" not in line)
    # The doctor finds much here: nothing runs.
    text = "\n".join(lines).replace("doctor cluster", "doctor cluster || true")
    return f"PATH=$PWD:$PATH\n{text}\n"


@pytest.fixture
def machine(server: KubeApiserver) -> Machine:
    made = Machine(server)
    (made.folder / "deploy").symlink_to(ROOT / "deploy")
    helm = Path(made.folder, "helm")
    helm.write_text(HELM)
    helm.chmod(0o755)
    return made


def test_the_commands_of_the_page(server: KubeApiserver, machine: Machine) -> None:
    cluster = RealCluster(server)
    machine.run("koordctl crds install")
    install_koordinator(cluster)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    metric = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric"}
    cluster.apply(metric | {"metadata": {"name": PLACES["NODE"]}, "spec": {}})
    *steps, undo = BLOCKS
    for block in steps:
        machine.run(commands(block))
    found = images(cluster)
    assert found.keys() == {name for _, name in CONTAINERS}
    assert {image for image in found.values() if "koordinator-sh" in image} == set()
    assert cluster.get("configmap", "slo-controller-config", "-n", NAMESPACE)["data"] == SETTINGS
    left = cluster.names("clusterroles") | cluster.names("clusterrolebindings")
    assert {name for name in left & (ROLES | BINDINGS) if "descheduler" not in name} == set()
    machine.run(commands(undo))
    assert images(cluster).keys() == {"koord-descheduler", "koord-device-daemon"}
    assert cluster.get("secret", RECORD, "-n", NAMESPACE)["data"] == {"release": "eA=="}
