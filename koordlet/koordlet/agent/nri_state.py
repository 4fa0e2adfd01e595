"""The connection to NRI as the status page shows it."""

from __future__ import annotations

from koordlet.agent.config import KoordletSettings
from koordlet.http_api.documents.status import NriState
from koordlet.runtime_hooks.nri.client import NriClient


def nri_state(settings: KoordletSettings, client: NriClient | None) -> NriState:
    """Describe the connection; ``client`` is ``None`` where NRI is not used."""
    if client is not None:
        reason = "" if client.connected else client.waits_for
        socket = settings.runtime_hooks_nri_socket_path
        return NriState(client.connected, socket, client.counts.calls, reason)
    if settings.read_only:
        return NriState(reason="off, with --read-only")
    if settings.default_runtime_type == "docker":
        return NriState(reason="docker has no NRI")
    if not settings.enable_nri_runtime_hook:
        return NriState(reason="off, with --enable-nri-runtime-hook=false")
    return NriState(reason="koordlet does not write to this node; its log says why")
