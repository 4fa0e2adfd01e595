"""The webhooks of one manager: server, certificates, and webhook configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import anyio
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import Api
from koord_kube.protocol.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from koord_service.tracing import SpanRecorder
from koord_serving.admission.callers import WebhookCallers
from koord_serving.admission.configuration_reconciler import WebhookConfigurationReconciler
from koord_serving.admission.core.ca_bundle_targets import CABundleTarget, configuration_target
from koord_serving.admission.core.configurations import (
    WebhookClientConfig,
    WebhookDefinition,
    configurations,
    served,
)
from koord_serving.admission.self_check import self_check
from koord_serving.admission.server import AdmissionServer
from koord_serving.tls.certificate_folder import CertificateFolder
from koord_serving.tls.certificate_secret import CertificateSecret
from koord_serving.tls.server_tls import ServerTls
from prometheus_client import CollectorRegistry

from koord_manager.program.cluster_informers import ClusterInformers
from koord_manager.program.config import Settings, parse_listen_address
from koord_manager.program.traced_webhook import traced
from koord_manager.webhooks.cluster_view import ClusterView
from koord_manager.webhooks.table import NAMES, TABLE

_PODS = "pods"
_DRAIN_SECONDS = 5.0
"""Time for API servers to find another replica: one readiness probe, and its propagation."""


class WebhookServer:
    """``targets`` are other objects that hold the CA bundle.

    ``leads`` says whether this manager writes; what it writes is ``fenced``. The server's
    certificate is for ``names``, too. ``reviews`` answers about tokens.
    """

    def __init__(
        self,
        settings: Settings,
        api: Api,
        fenced: Api,
        cluster: ClusterInformers,
        gates: Mapping[str, bool],
        registry: CollectorRegistry,
        *,
        leads: Callable[[], bool],
        reviews: Api | None = None,
        names: Sequence[str] = (),
        targets: Sequence[CABundleTarget] = (),
        tracing: SpanRecorder | None = None,
        on_warning: OnWarning = ignore_warning,
    ) -> None:
        self.tls = ServerTls()
        self.certified = anyio.Event()
        """Set once there is a certificate."""
        namespace, table = settings.config_namespace, tuple(_table(settings))
        self._service = service_names(settings.webhook_service, namespace)
        at = parse_listen_address("webhook_address", settings.webhook_address)
        self._callers = WebhookCallers(settings.webhook_callers(), reviews, on_warning=on_warning)
        self._server: AdmissionServer[ClusterView] | None = None
        if at is not None:
            self._server = AdmissionServer(
                {row.path: traced(row, tracing) for row in served(table, gates)},
                cluster.view,
                self.tls,
                registry,
                host=at[0] or None,
                port=at[1],
                callers=self._callers,
                problem=lambda: cluster.problem,
            )
            client = WebhookClientConfig(namespace, settings.webhook_service)
            mutating, validating = configurations(table, gates, client)
            targets = (
                *targets,
                configuration_target(MUTATING_WEBHOOKS, mutating, NAMES),
                configuration_target(VALIDATING_WEBHOOKS, validating, NAMES),
            )
        self._on_warning = on_warning
        self._certificates = self._kept(settings, api, leads, names)
        self._reconciler = WebhookConfigurationReconciler(
            fenced,
            targets,
            bundle=lambda: self._certificates.bundle,
            ready=self._ready,
            leads=leads,
            on_warning=on_warning,
        )

    @property
    def problem(self) -> str:
        """Reason why this manager is not ready for requests, in a line; "" if it is."""
        return self._server.problem() if self._server is not None else ""

    def lead(self) -> None:
        """This manager leads now: check the webhook configurations at once."""
        self._reconciler.lead()

    def _renewed(self) -> None:
        self.certified.set()
        self._reconciler.wake()

    async def run(self) -> None:
        """Until cancelled; requests under way are answered first.

        Raises:
            OSError: the address cannot be listened at.
        """
        async with anyio.create_task_group() as group:
            group.start_soon(self._certificates.run)
            group.start_soon(self._reconciler.run)
            group.start_soon(self._callers.run)
            if self._server is not None:
                await self._server.start()

    async def drain(self) -> None:
        """Take no new requests, and finish those under way."""
        if self._server is not None:
            # A server that was never ready gets no requests.
            await self._server.stop(0.0 if self.problem else _DRAIN_SECONDS)
        self._callers.close()

    def _kept(
        self, settings: Settings, api: Api, leads: Callable[[], bool], names: Sequence[str]
    ) -> CertificateSecret | CertificateFolder:
        if settings.webhook_cert_dir:
            return CertificateFolder(
                Path(settings.webhook_cert_dir),
                self.tls,
                changed=self._renewed,
                on_warning=self._on_warning,
            )
        return CertificateSecret(
            api,
            self.tls,
            (*self._service, *names),
            namespace=settings.config_namespace,
            secret=settings.webhook_secret,
            leads=leads,
            changed=self._renewed,
            on_warning=self._on_warning,
        )

    async def _ready(self) -> str:
        if self._server is None:
            return ""
        at = self._server.host, self._server.port
        return await self_check(*at, self._certificates.bundle, self._service[0])


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The DNS names of a Service, the one that API servers use first."""
    full = f"{service}.{namespace}.svc"
    return full, f"{service}.{namespace}", service, f"{full}.cluster.local"


def _table(settings: Settings) -> Iterator[WebhookDefinition[ClusterView]]:
    """The webhooks; those of pods must not block pods unless configured so."""
    for row in TABLE:
        if row.resource == _PODS:
            yield replace(row, fails=settings.webhook_configuration_failure_policy_pods == "Fail")
        else:
            yield row
