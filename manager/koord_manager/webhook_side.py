"""The webhooks of one manager: server, certificates, and what API servers are told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from koord_kube.api import Api
from koord_kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from prometheus_client import CollectorRegistry

from koord_manager.cluster_view import FollowedCluster
from koord_manager.config import Settings, listened_at
from koord_manager.serving.certificate_folder import CertificateFolder
from koord_manager.serving.configurations import ConfigurationKeeper
from koord_manager.serving.rotation import Rotation
from koord_manager.serving.self_check import self_check
from koord_manager.serving.server import WebhookServer
from koord_manager.serving.targets import Target, configuration_target
from koord_manager.serving.tls import ServerTls
from koord_manager.webhooks.configurations import ClientConfig, Row, configurations, served
from koord_manager.webhooks.table import TABLE

_PODS = "pods"
_DRAIN_SECONDS = 5.0
"""In which others are found to be asked: one look at readiness, and what it takes to spread."""


class WebhookSide:
    """``targets`` are other objects that say whom API servers are to trust.

    ``leads`` says whether this manager writes; what it writes is ``fenced``. The server's
    certificate is for ``names``, too.
    """

    def __init__(
        self,
        settings: Settings,
        api: Api,
        fenced: Api,
        cluster: FollowedCluster,
        gates: Mapping[str, bool],
        registry: CollectorRegistry,
        *,
        leads: Callable[[], bool],
        names: Sequence[str] = (),
        targets: Sequence[Target] = (),
    ) -> None:
        self.tls = ServerTls()
        self.certified = asyncio.Event()
        """Set once there is a certificate to be shown."""
        namespace, table = settings.config_namespace, tuple(_table(settings))
        self._service = service_names(settings.webhook_service, namespace)
        at = listened_at("webhook_address", settings.webhook_address)
        self._server = None
        if at is not None:
            self._server = WebhookServer(
                {row.path: row.handler for row in served(table, gates)},
                cluster.view,
                self.tls,
                registry,
                host=at[0] or None,
                port=at[1],
                trouble=lambda: cluster.trouble,
            )
            client = ClientConfig(namespace, settings.webhook_service)
            mutating, validating = configurations(table, gates, client)
            targets = (
                *targets,
                configuration_target(MUTATING_WEBHOOKS, mutating),
                configuration_target(VALIDATING_WEBHOOKS, validating),
            )
        self._certificates = self._kept(settings, api, leads, names)
        self._keeper = ConfigurationKeeper(
            fenced,
            targets,
            bundle=lambda: self._certificates.bundle,
            ready=self._ready,
            leads=leads,
        )

    @property
    def trouble(self) -> str:
        """Why this manager should not be asked, in a line; "" where it should."""
        return self._server.trouble() if self._server is not None else ""

    def wake(self) -> None:
        """This manager leads now: what API servers are told is looked at at once."""
        self._keeper.wake()

    def _renewed(self) -> None:
        self.certified.set()
        self._keeper.wake()

    async def run(self) -> None:
        """Until cancelled; requests under way are answered first.

        Raises:
            OSError: the address cannot be listened at.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._certificates.run())
            group.create_task(self._keeper.run())
            if self._server is not None:
                await self._server.start()

    async def drain(self) -> None:
        """Be asked no more, and answer what is under way."""
        if self._server is not None:
            # Who was never ready is asked by nobody.
            await self._server.stop(0.0 if self.trouble else _DRAIN_SECONDS)

    def _kept(
        self, settings: Settings, api: Api, leads: Callable[[], bool], names: Sequence[str]
    ) -> Rotation | CertificateFolder:
        if settings.webhook_cert_dir:
            return CertificateFolder(
                Path(settings.webhook_cert_dir), self.tls, changed=self._renewed
            )
        return Rotation(
            api,
            self.tls,
            (*self._service, *names),
            namespace=settings.config_namespace,
            secret=settings.webhook_secret,
            leads=leads,
            changed=self._renewed,
        )

    async def _ready(self) -> str:
        if self._server is None:
            return ""
        at = self._server.host, self._server.port
        return await self_check(*at, self._certificates.bundle, self._service[0])


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The names by which a Service is asked, the one that API servers use first."""
    full = f"{service}.{namespace}.svc"
    return full, f"{service}.{namespace}", service, f"{full}.cluster.local"


def _table(settings: Settings) -> Iterator[Row]:
    """The webhooks; those of pods must not be in the way unless somebody wants that."""
    for row in TABLE:
        if row.resource == _PODS:
            yield replace(row, fails=settings.webhook_configuration_failure_policy_pods == "Fail")
        else:
            yield row
