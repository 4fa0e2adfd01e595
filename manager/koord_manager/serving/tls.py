"""What a server shows its clients, and how that changes while it serves.

Each handshake takes the certificate that is in force at that moment, from a context made for
it: loading into the context in use would leave an RSA certificate beside an ECDSA one, and
which of both is shown would be the client's choice. Connections that are open stay open.
"""

from __future__ import annotations

import os
import ssl
from datetime import datetime

from koord_manager.serving import certificates


class CertificateError(ValueError):
    """A server cannot use this certificate and key; one line, which quotes neither."""


class ServerTls:
    """``context`` is for servers to listen with, from the beginning and for good.

    Without a certificate, which is so before the first ``use``, handshakes fail.
    """

    def __init__(self) -> None:
        self.context = server_context()
        self.context.sni_callback = self._greet
        self._current: ssl.SSLContext | None = None
        self.pair = (b"", b"")
        """Certificate and key in PEM, for servers that know no context; empty before the first."""

    def use(self, certificate: bytes, key: bytes, now: datetime) -> bool:
        """Show this certificate (PEM) from now on; says whether it is another than before.

        Raises:
            CertificateError: it cannot be shown; the one before stays.
        """
        if self._current is not None and (certificate, key) == self.pair:
            return False
        if reason := certificates.trouble(certificate, key, now):
            raise CertificateError(f"the server's certificate cannot be used: {reason}")
        try:
            made = server_context()
            load(made, certificate, key)
        except (ssl.SSLError, OSError) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise CertificateError(f"the server's certificate cannot be used: {reason}") from None
        self._current, self.pair = made, (certificate, key)
        return True

    def trouble(self, now: datetime) -> str:
        """Why no client would trust us now, "" where nothing is known against it."""
        if self._current is None:
            return "there is no certificate yet"
        return certificates.trouble(*self.pair, now)

    def expiry(self) -> datetime | None:
        """When the certificate in force ends."""
        return certificates.expiry(self.pair[0])

    def _greet(self, connection: ssl.SSLObject, _name: str | None, _ours: ssl.SSLContext) -> None:
        if self._current is not None:
            connection.context = self._current


def server_context() -> ssl.SSLContext:
    """For servers, without a certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """OpenSSL reads files only: this one is in memory, and nobody else's."""
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        left = memoryview(certificate.rstrip() + b"\n" + key)
        while left:
            left = left[os.write(descriptor, left) :]
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
