"""The server of ``--metrics-address``: for whom, with what certificate, and which pages."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from koord_service.certificate_files import CertificateFiles
from koord_service.logs import get_log
from koord_service.status import Access, MakePage, Query, StatusPage, StatusServer, is_local

if TYPE_CHECKING:
    from koord_serving.delegated_auth.request_authorizer import RequestAuthorizer

_PROBES = ("/healthz", "/readyz")
_PUBLIC = ("/metrics", *_PROBES)
"""Paths that other machines may request; all others are for people on the node."""

_REVIEW_SECONDS = 15.0
"""For a review and its way here; it has a shorter limit of its own."""

_log = get_log("koordlet")


@dataclass(frozen=True, slots=True)
class MetricsServerSettings:
    """``--metrics-address``, the files of its certificate, and ``--metrics-token-review``."""

    address: str
    cert_file: str = ""
    private_key_file: str = ""
    token_review: bool = False


def open_metrics_server(
    settings: MetricsServerSettings,
    pages: Mapping[str, MakePage],
    authorizer: RequestAuthorizer | None,
) -> StatusServer:
    """The server, not started yet; call it in the event loop of the authorizer's client.

    Raises:
        ValueError: the address, a certificate, or a review of tokens that cannot be.
    """
    address = settings.address
    try:
        network = not is_local(address)
        access = Access(
            public={path: _public(path, pages[path]) for path in _PUBLIC if path in pages},
            tls=_certificate(settings),
            admit=_reviews(authorizer) if settings.token_review else None,
        )
        server = StatusServer(address, pages, network=network, access=access)
    except ValueError as error:
        raise ValueError(f"--metrics-address: {error}") from None
    if network and access.tls is None:
        _log.warning("metrics are served to the network in clear text", address=address)
    return server


def _certificate(settings: MetricsServerSettings) -> Callable[[], ssl.SSLContext] | None:
    if not settings.cert_file:
        return None
    return CertificateFiles(
        Path(settings.cert_file),
        Path(settings.private_key_file),
        lambda line: _log.warning("certificate of --metrics-address", reason=line),
    ).context


def _public(path: str, make: MakePage) -> MakePage:
    """A page for the network: probes say there what is so, and not why."""
    if path not in _PROBES:
        return make

    def probe(query: Query) -> StatusPage:
        status = make(query).status
        return StatusPage(b"ok\n" if status == 200 else b"not ok\n", status=status)

    return probe


def _reviews(authorizer: RequestAuthorizer | None) -> Callable[[str, str], StatusPage | None]:
    if authorizer is None:
        raise ValueError("--metrics-token-review needs a cluster, which reviews the tokens")
    loop = asyncio.get_running_loop()

    def admit(authorization: str, path: str) -> StatusPage | None:
        if path in _PROBES:
            return None  # kubelets have no token to send
        review = asyncio.run_coroutine_threadsafe(
            authorizer.check(authorization, "get", path), loop
        )
        try:
            verdict = review.result(_REVIEW_SECONDS)
        except TimeoutError:
            review.cancel()
            return StatusPage(b"503 tokens cannot be reviewed now\n", status=503)
        if verdict.status == 200:
            return None
        headers = {"WWW-Authenticate": "Bearer"} if verdict.status == 401 else {}
        body = f"{verdict.status} {verdict.reason}\n".encode(errors="replace")
        return StatusPage(body, status=verdict.status, headers=headers)

    return admit
