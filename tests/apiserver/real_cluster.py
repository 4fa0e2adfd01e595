"""A cluster with a real API server, in which ours runs with the rights that deploy/ gives it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from koord_demo.programs import console_script
from kubernetes.aio import client as official

from tests.support.colocation import metric_status
from tests.support.kube_apiserver import ADMIN, KubeApiserver
from tests.support.manager_program import NAMESPACE, QUICK, WEBHOOKS, ManagerProgram
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
COMPONENTS = (
    "node-metric-api",
    "resource-metrics",
    "custom-metrics",
    "external-metrics",
    "colocation-profile-controller",
    "evictions",
    "custom-node-resource",
    "service-profiles",
    "devices",
    "network-policies",
    "scheduler",
    "numa",
    "device-plugins",
    "device-share",
    "reservations",
    "gangs",
    "network-topology",
    "quotas",
    "descheduler",
    "tide-node-pools",
    "rollout-guard",
    "node-backstop",
    "pod-resize",
)


class RealCluster:
    """``server`` is its API server, everything in it is by kubectl, as an administrator has it."""

    def __init__(
        self, server: KubeApiserver, patches: Sequence[Mapping[str, Any]] = (), profile: str = ""
    ) -> None:
        """``patches`` are kustomize's, of what ``install`` installs: a profile, or all."""
        self.server = server
        self._patches = patches
        self._profile = profile
        self.managers: list[ManagerProgram] = []

    def install(self) -> None:
        """What deploy/README.md says, but for what would run: there is no kubelet."""
        config = self.server.kubeconfig("admin", ADMIN)
        command = [console_script("koordctl"), "crds", "install", f"--kubeconfig={config}"]
        subprocess.run(command, check=True, capture_output=True)
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        self.kubectl("apply", "-k", str(self._overlay()))

    def _overlay(self) -> Path:
        """The kustomization with what features need that are tried here."""
        folder = self.server.folder / "overlay"
        folder.mkdir()
        deploy = Path(os.path.relpath(ROOT / "deploy", folder))
        installed = (
            {"resources": [str(deploy / "profiles" / self._profile)]}
            if self._profile
            else {
                "resources": [str(deploy)],
                "components": [str(deploy / "components" / name) for name in COMPONENTS],
            }
        )
        given = installed | {"patches": list(self._patches)}
        (folder / "kustomization.yaml").write_text(json.dumps(given))
        return folder

    def kubectl(self, *words: str, stdin: str = "", token: str = ADMIN) -> str:
        return self.server.kubectl(*words, stdin=stdin, token=token)

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create or change objects, in the server's own strictest reading."""
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "--validate=strict", "-f", "-", stdin=given)

    def ready_node(
        self, name: str, amounts: Mapping[str, str], labels: Mapping[str, str] | None = None
    ) -> None:
        """A Node that has these amounts for pods, and no taints of a new one."""
        metadata = {"name": name, "labels": labels or {}}
        self.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        status = json.dumps({"status": {"capacity": amounts, "allocatable": amounts}})
        self.kubectl("patch", "node", name, "--subresource=status", "-p", status)
        self.kubectl("patch", "node", name, "-p", '{"spec": {"taints": null}}')

    def get(self, *words: str) -> dict[str, Any]:
        """One object, or a list of them."""
        return dict(json.loads(self.kubectl("get", *words, "-o", "json")))

    def token(self, account: str, *more: str) -> str:
        """A token of a service account in our namespace, as kubelets ask for them; for a day."""
        words = ("create", "token", account, "-n", NAMESPACE, "--duration=24h")
        return self.kubectl(*words, *more).strip()

    def manager(self, name: str, *flags: str) -> ManagerProgram:
        """One that is not started yet."""
        kubeconfig = self.server.kubeconfig(name, self.token("koord-manager"))
        made = ManagerProgram(
            name,
            self.server.folder,
            kubeconfig,
            *(flags or QUICK),
            host=self.server.network.address,
            inside=self.server.network.inside([]),
        )
        self.managers.append(made)
        return made

    async def started(self, name: str, *flags: str) -> ManagerProgram:
        """One that is ready, and is asked as a webhook."""
        made = self.manager(name, *flags)
        await asyncio.to_thread(made.start)
        await until(lambda: made.ready, f"{name} is ready")
        self.apply(webhooks_at(made))
        return made

    def ask_nobody(self, manager: ManagerProgram) -> None:
        """It is not ready any more: no webhook is asked of it."""
        self.kubectl("delete", "endpointslice", _slice(manager), "-n", NAMESPACE)

    def forget_managers(self) -> None:
        """The next ones find neither a holder of the Lease nor anybody else to be asked."""
        ours = ("-n", NAMESPACE, "--ignore-not-found")
        self.kubectl("delete", "lease", "koordinator-manager", *ours)
        service = f"kubernetes.io/service-name={WEBHOOKS}"
        self.kubectl("delete", "endpointslice", "-l", service, *ours)

    # ---- what is in it

    def namespace(self, name: str, **labels: str) -> None:
        """One in which pods can be made: controllers would give it its account."""
        meta = {"name": name, "labels": labels}
        self.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": meta},
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": name},
            },
        )

    def status(self, kind: str, name: str, status: Mapping[str, Any], namespace: str = "") -> None:
        """What a kubelet, say, writes of an object."""
        patch = json.dumps({"status": status})
        more = ["-n", namespace] if namespace else []
        self.kubectl(
            *("patch", kind, name, "--subresource=status", "--type=merge", "-p", patch), *more
        )

    def busy_node(self, name: str, namespace: str) -> None:
        """Ten cores, 100 GiB; a production pod that asks for 8 of both runs there."""
        amounts = {"cpu": "10", "memory": "100Gi", "pods": "110"}
        self.apply(node(name))
        self.status("node", name, {"capacity": amounts, "allocatable": amounts})
        resources = {"requests": {"cpu": "8", "memory": "8Gi"}}
        self.apply(
            pod(
                f"web-{name}",
                namespace,
                {"nodeName": name, "priorityClassName": "koord-prod"},
                resources,
            )
        )
        self.status("pod", f"web-{name}", {"phase": "Running"}, namespace)

    async def report(self, name: str, namespace: str, cores: float) -> None:
        """Its koordlet says that the production pod uses so much."""
        status = metric_status(namespace, f"web-{name}", cores)
        reclaimable = {"resource": {"resources": {"cpu": "2", "memory": "2Gi"}}}
        status["prodReclaimableMetric"] = reclaimable
        async with self.client(self.token("koordlet")) as client:
            await official.CustomObjectsApi(client).patch_cluster_custom_object_status(
                *("slo.koordinator.sh", "v1alpha1", "nodemetrics", name),
                {"status": status},
                _content_type="application/merge-patch+json",
            )

    def client(self, token: str = ADMIN) -> official.ApiClient:
        """Kubernetes' own client, of whoever has this token."""
        settings = official.Configuration(host=self.server.url)
        settings.ssl_ca_cert = str(self.server.authority)
        settings.api_key = {"authorization": f"Bearer {token}"}
        return official.ApiClient(settings)

    def offers(self, name: str) -> dict[str, str]:
        """What a node has to give, of what the kubelet knows nothing."""
        found = self.get("node", name)["status"]
        ours = {key: value for key, value in found["allocatable"].items() if "/" in key}
        assert ours == {key: value for key, value in found["capacity"].items() if "/" in key}
        return ours

    def names(self, kind: str) -> set[str]:
        return {one["metadata"]["name"] for one in self.get(kind)["items"]}


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def pod(
    name: str, namespace: str, spec: Mapping[str, Any], resources: Mapping[str, Any], **labels: str
) -> dict[str, Any]:
    """One of one container."""
    container = {"name": "c", "image": "i", "resources": resources}
    meta = {"name": name, "namespace": namespace, "labels": labels}
    spec = {**spec, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def webhooks_at(manager: ManagerProgram) -> dict[str, Any]:
    """The EndpointSlice that a controller would make of the manager's pod."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": _slice(manager),
            "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": WEBHOOKS},
        },
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": manager.webhook_port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [manager.host], "conditions": {"ready": True}}],
    }


def _slice(manager: ManagerProgram) -> str:
    return f"{WEBHOOKS}-{manager.name}"
