"""The servers of koordlet's pages, as the settings want them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from koord_service.status import MakePage, StatusServer

from koordlet.agent.config import KoordletSettings
from koordlet.agent.states_informer import StatesInformer
from koordlet.http_api.metrics_server import MetricsServerSettings, open_metrics_server

if TYPE_CHECKING:
    from koord_serving.delegated_auth.request_authorizer import RequestAuthorizer

_EVERYBODY = 0o666
"""The mode of the socket for people: what it tells is no secret here, and changes nothing."""


def open_servers(
    settings: KoordletSettings, pages: Mapping[str, MakePage], cluster: StatesInformer | None
) -> tuple[StatusServer, ...]:
    """The servers, not started yet; call it in the event loop of the cluster's client.

    Raises:
        ValueError: an address, a certificate, or a review of tokens that cannot be.
    """
    servers = []
    if settings.metrics_address:
        served = MetricsServerSettings(
            settings.metrics_address,
            settings.metrics_tls_cert_file,
            settings.metrics_tls_private_key_file,
            settings.metrics_token_review,
        )
        authorizer = _authorizer(cluster) if settings.metrics_token_review else None
        servers.append(open_metrics_server(served, pages, authorizer))
    if settings.status_address != "none":
        beside = str(Path(settings.runtime_hooks_addr).with_name("status.sock"))
        servers.append(_people_server(settings.status_address or beside, pages))
    return tuple(servers)


def _authorizer(cluster: StatesInformer | None) -> RequestAuthorizer | None:
    if cluster is None:
        return None
    # Imported late: a node alone has no client of an API server.
    from koord_serving.delegated_auth.request_authorizer import RequestAuthorizer

    return RequestAuthorizer(cluster.client, cluster.complain)


def _people_server(address: str, pages: Mapping[str, MakePage]) -> StatusServer:
    try:
        return StatusServer(address, pages, mode=_EVERYBODY)
    except ValueError as error:
        raise ValueError(f"--status-address: {error}") from None
