"""Certificates of servers, and their replacement while they serve.

Each handshake takes the certificate that is in force at that moment, from a context made for
it: loading into the context in use would leave an RSA certificate beside an ECDSA one, and
which of both is shown would be the client's choice. Connections that are open stay open.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from datetime import datetime

from koord_serving.tls.core import certificates


class CertificateError(ValueError):
    """A server cannot use these certificates; one line, which quotes none of them."""


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A server's certificate, with those in between, and its key; both in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


class ServerTls:
    """``pair`` is what all servers of this program show; ``None`` before the first ``use``."""

    def __init__(self) -> None:
        self.pair: CertificatePair | None = None

    def use(self, certificate: bytes, key: bytes, now: datetime) -> bool:
        """Use this certificate (PEM) from now on; returns whether it is a new one.

        Raises:
            CertificateError: it cannot be shown; the one before stays.
        """
        pair = CertificatePair(certificate, key)
        if pair == self.pair:
            return False
        if reason := certificates.problem(certificate, key, now):
            raise CertificateError(f"the server's certificate cannot be used: {reason}")
        try:
            _load(_context(), pair)
        except OSError as error:  # ssl's errors are
            reason = getattr(error, "reason", None) or type(error).__name__
            raise CertificateError(f"the server's certificate cannot be used: {reason}") from None
        self.pair = pair
        return True

    def problem(self, now: datetime) -> str:
        """Return why clients would not trust us now, "" if no reason is known."""
        if self.pair is None:
            return "there is no certificate yet"
        return certificates.problem(self.pair.certificate, self.pair.key, now)

    def expiry(self) -> datetime | None:
        """Return when the certificate in force ends."""
        return certificates.expiry(self.pair.certificate) if self.pair else None


class ListenerTls:
    """``context`` is for one HTTP server, for its whole life.

    Without a certificate in ``tls`` handshakes fail. With ``asks`` clients are asked for one, too:
    one that is shown must be signed by the authority that the listener trusts then.
    """

    def __init__(self, tls: ServerTls, *, asks: bool = False) -> None:
        self._tls = tls
        self._asks = asks
        self._client_ca = ""
        self._made_of: tuple[CertificatePair | None, str] = (None, "")
        self.context = self._newest = _context(asks=asks)
        self.context.sni_callback = self._greet

    def trust(self, client_ca: str) -> None:
        """Verify clients by these authorities (PEM) from now on.

        Raises:
            CertificateError: they are none; those before stay.
        """
        if client_ca == self._client_ca:
            return
        try:
            _context(asks=True).load_verify_locations(cadata=client_ca)
        except (OSError, ValueError, TypeError) as error:  # the last: not ASCII
            reason = getattr(error, "reason", None) or type(error).__name__
            raise CertificateError(f"the clients' authority cannot be used: {reason}") from None
        self._client_ca = client_ca

    def _greet(
        self, connection: ssl.SSLObject, _name: str | None, _ours: ssl.SSLContext
    ) -> int | None:
        if self._asks and connection.session_reused:
            # It would bring back a client's certificate that is trusted no more.
            return ssl.ALERT_DESCRIPTION_HANDSHAKE_FAILURE
        current = (self._tls.pair, self._client_ca)
        if current != self._made_of:
            self._newest = self._made()
            self._made_of = current
        connection.context = self._newest
        return None

    def _made(self) -> ssl.SSLContext:
        context = _context(asks=self._asks)
        if self._client_ca:
            context.load_verify_locations(cadata=self._client_ca)
        if self._tls.pair is not None:
            _load(context, self._tls.pair)
        return context


def _context(*, asks: bool = False) -> ssl.SSLContext:
    """For servers of HTTP, without a certificate yet.

    What a connection asks of its client is what it began with, whatever context it is given.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if asks:
        context.verify_mode = ssl.CERT_OPTIONAL
        # So clients of TLS 1.3 have no session to resume; of 1.2 they keep one all the same.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context


def _load(context: ssl.SSLContext, pair: CertificatePair) -> None:
    """OpenSSL reads files only: this one is in memory, and private."""
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        left = memoryview(pair.certificate.rstrip() + b"\n" + pair.key)
        while left:
            left = left[os.write(descriptor, left) :]
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
