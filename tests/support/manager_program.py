"""koord-manager as a process of its own, beside the double of the API server."""

from __future__ import annotations

import json
import socket
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from koord_kube.resources import NAMESPACES, PRIORITY_CLASSES

from tests.support.kube_api import KubeApi
from tests.support.processes import Program

NAMESPACE = "koordinator-system"
WEBHOOKS, LEADER = "koordinator-webhook-service", "koordinator-manager-leader"
_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: emulated, user: manager}}}}]
clusters: [{{name: emulated, cluster: {{server: "{server}"{trust}}}}}]
users: [{{name: manager, user: {{token: {token}}}}}]
"""


class ManagerProgram(Program):
    """One manager; its ports are its own, so that several run beside each other.

    Its Services lead to it once ``serve_webhooks`` and ``lead_nodes_here`` were called: what
    kube-proxy does where there is one.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        api: KubeApi,
        *flags: str,
        authority: Path | None = None,
        token: str = "manager-token",
    ) -> None:
        super().__init__(name, folder)
        self.api = api
        self.webhook_port, self.api_port, self.report_port, self.port, self.health_port = _free(5)
        trust = f', certificate-authority: "{authority}"' if authority else ""
        self.kubeconfig = folder / f"{name}.kubeconfig"
        self.kubeconfig.write_text(_KUBECONFIG.format(server=api.url, trust=trust, token=token))
        self._flags = flags

    def start(self) -> None:
        """Start it, and wait until it says how it is."""
        self.spawn(
            [
                *(sys.executable, "-m", "koord_manager.main"),
                f"--kubeconfig={self.kubeconfig}",
                f"--metrics-addr=127.0.0.1:{self.port}",
                f"--health-probe-addr=127.0.0.1:{self.health_port}",
                f"--webhook-address=127.0.0.1:{self.webhook_port}",
                f"--node-metric-api-address=127.0.0.1:{self.api_port}",
                f"--node-metric-report-address=127.0.0.1:{self.report_port}",
                "--pod-ip=127.0.0.1",
                f"--pod-name={self.name}",
                "--log-format=json",
                *self._flags,
            ]
        )

    @property
    def ready(self) -> bool:
        """Whether the kubelet would let it be asked."""
        try:
            with urlopen(f"http://127.0.0.1:{self.health_port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    @property
    def leads(self) -> bool:
        return bool(self.page("/v1/status")["leads"])

    def page(self, path: str, **query: str) -> dict[str, Any]:
        """A page of its own as JSON."""
        url = f"http://127.0.0.1:{self.port}{path}?{urlencode(query)}"
        with urlopen(url, timeout=10) as answer:
            return dict(json.load(answer))

    def metrics(self) -> str:
        with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def serve_webhooks(self) -> None:
        """Let the webhooks' Service lead here."""
        self.api.services[(NAMESPACE, WEBHOOKS, 443)] = ("127.0.0.1", self.webhook_port)

    def serve_node_metrics(self) -> None:
        """Let the leader's Service lead here."""
        self.api.services[(NAMESPACE, LEADER, 443)] = ("127.0.0.1", self.api_port)


def put_namespaces(api: KubeApi, *names: str, **labels: str) -> None:
    """Namespaces with these labels, and the manager's and the cluster's own."""
    for name in ("default", "kube-system", NAMESPACE, *names):
        own = {"kubernetes.io/metadata.name": name}
        api.put(NAMESPACES, {"metadata": {"name": name, "labels": own | labels}})


def put_priority_classes(api: KubeApi) -> None:
    """Koordinator's."""
    values = {"koord-prod": 9500, "koord-mid": 7500, "koord-batch": 5500, "koord-free": 3500}
    for name, value in values.items():
        api.put(
            PRIORITY_CLASSES,
            {
                "metadata": {"name": name},
                "value": value,
                "preemptionPolicy": "PreemptLowerPriority",
            },
        )


def _free(count: int) -> list[int]:
    """Ports that nobody listens at now."""
    open_ = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in open_]
    for one in open_:
        with closing(one):
            pass
    return ports
