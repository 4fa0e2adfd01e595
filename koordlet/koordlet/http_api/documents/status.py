"""The state of koordlet in short: its health, and how hooks reach it. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from koord_model.version import VERSION

from koordlet.http_api.documents.node import Document, DocumentSources, health_document

_NOT_OBSERVING = "koordlet observes nothing on this node; its log says why"


@dataclass(frozen=True, slots=True)
class NriState:
    """The connection to the runtime's NRI socket; ``reason`` says why there is none."""

    connected: bool = False
    socket: str = ""
    calls: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HookTransports:
    """Servers of hook calls; ``registration`` is "" while the proxy is not to call us."""

    socket: str
    registration: str
    plugins: Sequence[str]
    stages: Sequence[str]
    nri: NriState


def status_document(
    hooks: HookTransports, observed: DocumentSources | None, started_at: float, mode: str = ""
) -> Document:
    """Build the page; ``observed`` is ``None`` where nothing is observed.

    ``started_at`` is in seconds since the epoch; ``mode`` is how koordlet runs if that is not the
    usual way.
    """
    health: Document = {"status": "degraded", "reasons": [_NOT_OBSERVING]}
    if observed is not None:
        health, _ = health_document(observed)
    return {
        "version": VERSION,
        "started_at": started_at,
        "mode": mode,
        "health": health,
        "hooks": asdict(hooks),
    }
