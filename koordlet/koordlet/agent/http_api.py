"""The servers of koordlet's pages, as the settings want them, and what one page says of these."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from koord_host.kernel_files.interface import FileTree
from koord_host.knobs.layout import Layout
from koord_service.status import MakePage, StatusServer

from koordlet.agent.config import KoordletSettings
from koordlet.agent.states_informer import StatesInformer
from koordlet.http_api.documents.status import NriState
from koordlet.http_api.metrics_server import MetricsServerSettings, open_metrics_server
from koordlet.runtime_hooks.nri.client import NriClient

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


def open_malachite_server(
    settings: KoordletSettings, tree: FileTree, layout: Layout
) -> StatusServer | None:
    """The server of ``--malachite-addr``, not started yet; ``None`` without it."""
    if not settings.malachite_addr:
        return None
    # Imported late: few nodes have a reader of it.
    from koordlet.http_api.malachite.core.kernel_text import NodeFileTree
    from koordlet.http_api.malachite.pages import MalachitePages

    files = NodeFileTree(tree, layout, settings.sys_root_dir, os.sysconf("SC_PAGE_SIZE"))
    return StatusServer(settings.malachite_addr, MalachitePages(files).pages())


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


def nri_state(settings: KoordletSettings, client: NriClient | None) -> NriState:
    """The connection to NRI as the status page shows it; ``client`` is ``None`` without NRI."""
    if client is not None:
        reason = "" if client.connected else client.waits_for
        socket = settings.runtime_hooks_nri_socket_path
        return NriState(client.connected, socket, client.counts.calls, reason)
    if settings.only_observes:
        flag = "--dry-run" if settings.dry_run else "--read-only"
        return NriState(reason=f"off, with {flag}")
    if settings.default_runtime_type == "docker":
        return NriState(reason="docker has no NRI")
    if not settings.enable_nri_runtime_hook:
        return NriState(reason="off, with --enable-nri-runtime-hook=false")
    return NriState(reason="koordlet does not write to this node; its log says why")
