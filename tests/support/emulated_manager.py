"""koord-manager beside the double of the API server."""

from __future__ import annotations

from pathlib import Path

from koord_kube.protocol.resources import NAMESPACES, PRIORITY_CLASSES

from tests.support.kube_api import KubeApi
from tests.support.manager_program import LEADER, NAMESPACE, WEBHOOKS, ManagerProgram

_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: emulated, user: manager}}}}]
clusters: [{{name: emulated, cluster: {{server: "{server}"{trust}}}}}]
users: [{{name: manager, user: {{token: {token}}}}}]
"""


class EmulatedManager(ManagerProgram):
    """Its Services lead to it once ``serve_webhooks`` and ``serve_node_metrics`` were called.

    That is what kube-proxy does where there is one.
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
        trust = f', certificate-authority: "{authority}"' if authority else ""
        kubeconfig = folder / f"{name}.kubeconfig"
        kubeconfig.write_text(_KUBECONFIG.format(server=api.url, trust=trust, token=token))
        super().__init__(name, folder, kubeconfig, *flags)
        self.api = api

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
