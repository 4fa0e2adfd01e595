"""A cluster with a real API server, in which ours runs with the rights that deploy/ gives it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from koord_demo.programs import console_script

from tests.support.cluster import until
from tests.support.kube_apiserver import ADMIN, KubeApiserver
from tests.support.manager_program import NAMESPACE, WEBHOOKS, ManagerProgram

ROOT = Path(__file__).parents[2]
QUICK = (
    "--lease-duration=3",
    "--renew-deadline=2",
    "--retry-period=0.5",
    "--noderesource-interval=0.5",
)
"""Leader election and passes as quick as a test would have them."""


class RealCluster:
    """``server`` is its API server, everything in it is by kubectl, as an administrator has it."""

    def __init__(self, server: KubeApiserver) -> None:
        self.server = server
        self.managers: list[ManagerProgram] = []

    def install(self) -> None:
        """What deploy/README.md says, but for what would run: there is no kubelet."""
        config = self.server.kubeconfig("admin", ADMIN)
        command = [console_script("koordctl"), "crds", "install", f"--kubeconfig={config}"]
        subprocess.run(command, check=True, capture_output=True)
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        self.kubectl("apply", "-k", str(ROOT / "deploy"))

    def kubectl(self, *words: str, stdin: str = "", token: str = ADMIN) -> str:
        return self.server.kubectl(*words, stdin=stdin, token=token)

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create or change objects, in the server's own strictest reading."""
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "--validate=strict", "-f", "-", stdin=given)

    def get(self, *words: str) -> dict[str, Any]:
        """One object, or a list of them."""
        return dict(json.loads(self.kubectl("get", *words, "-o", "json")))

    def token(self, account: str, *more: str) -> str:
        """A token of a service account in our namespace, as kubelets ask for them."""
        return self.kubectl("create", "token", account, "-n", NAMESPACE, *more).strip()

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


def webhooks_at(*managers: ManagerProgram) -> dict[str, Any]:
    """The EndpointSlice that a controller would make of the managers' pods."""
    (port,) = {one.webhook_port for one in managers}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{WEBHOOKS}-1",
            "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": WEBHOOKS},
        },
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": [one.host], "conditions": {"ready": True}} for one in managers
        ],
    }
