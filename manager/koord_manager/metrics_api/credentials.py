"""TLS for both servers, from certificates that may change at any time.

New connections get the newest pair and the newest front proxy's CA; those that are open stay.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from koord_service.grpc_core import grpc
from koord_service.logs import get_log

from koord_manager.serving.tls import load, server_context

_log = get_log("manager.metrics-api")


@dataclass(frozen=True, slots=True)
class Pair:
    """A server's certificate, with those in between, and its key; both in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


Current = Callable[[], Pair]
"""The pair to be used from now on; called from any thread."""


def grpc_credentials(current: Current) -> grpc.ServerCredentials:
    """For gRPC servers; clients need no certificate, they have tokens."""
    used = current()

    def newer() -> grpc.ServerCertificateConfiguration | None:
        """Nothing where none changed: of each the core makes a context anew."""
        nonlocal used
        pair = current()
        if pair == used:
            return None
        used = pair
        return _configuration(pair)

    # None means "as it is", which the stubs do not know.
    return grpc.dynamic_ssl_server_credentials(_configuration(used), newer)  # type: ignore[arg-type]


def _configuration(pair: Pair) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pair.key, pair.certificate)])


class HttpsContext:
    """For HTTP servers; a client's certificate is verified by ``client_ca`` if it shows one.

    Both may change; ``client_ca`` is PEM, "" while not known.
    """

    def __init__(self, current: Current, client_ca: Callable[[], str]) -> None:
        self._current = current
        self._client_ca = client_ca
        self._made_of = (current(), client_ca())
        self._newest = _context(*self._made_of)
        self.context = self._newest
        """What a listener is made with."""
        self.context.sni_callback = self._renewed

    def _renewed(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        wanted = (self._current(), self._client_ca())
        if wanted != self._made_of:
            self._made_of = wanted
            try:
                self._newest = _context(*wanted)
            except (OSError, ValueError) as error:  # ssl's errors are OSErrors
                _log.warning("new certificates are no good, the old ones stay", error=str(error))
        connection.context = self._newest


def _context(pair: Pair, client_ca: str) -> ssl.SSLContext:
    """What is verified by it also where another context has taken the connection."""
    context = server_context()
    context.verify_mode = ssl.CERT_OPTIONAL
    # A resumed session would bring a client's certificate back that is trusted no more.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    if client_ca:
        context.load_verify_locations(cadata=client_ca)
    load(context, pair.certificate, pair.key)
    return context
