"""Certificates in a folder that another program maintains: read, and read again on change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from koord_service.logs import get_log

from koord_serving.periodic import run_periodically
from koord_serving.tls.core import certificates
from koord_serving.tls.server_tls import CertificateError, ServerTls

log = get_log("manager.certificates")

# A mounted Secret changes by a renamed link, which no watch on its files sees.
_SECONDS = 10.0


def _utc() -> datetime:
    return datetime.now(UTC)


class CertificateFolder:
    """``tls.crt`` and ``tls.key``, or ``cert.pem`` and ``key.pem``; nothing is written.

    ``bundle`` is ``ca-cert.pem`` or ``ca.crt``; empty without either: then who keeps the
    folder keeps the caBundle of the webhook configurations, too.
    """

    def __init__(
        self,
        folder: Path,
        tls: ServerTls,
        *,
        changed: Callable[[], None] = lambda: None,
        now: Callable[[], datetime] = _utc,
    ) -> None:
        self._folder = folder
        self._tls = tls
        self._changed = changed
        self._now = now
        self._trouble = ""
        self.bundle = b""

    async def run(self) -> None:
        """For ever."""
        await run_periodically(self.once, asyncio.Event(), log)

    async def once(self) -> float:
        """Read the files; what cannot be used leaves the certificate before in force."""
        trouble = ""
        try:
            self._read()
        except (CertificateError, OSError) as error:
            trouble = str(error)
        if trouble and trouble != self._trouble:
            log.warning("certificate files are not usable", folder=str(self._folder), error=trouble)
        self._trouble = trouble
        return _SECONDS

    def _read(self) -> None:
        certificate = self._one(certificates.TLS_CERT, certificates.CERT)
        key = self._one(certificates.TLS_KEY, certificates.KEY)
        bundle = self._one(certificates.CA_CERT, "ca.crt", needed=False)
        if self._tls.use(certificate, key, self._now()):
            log.info("certificate in use", until=self._tls.expiry())
        if bundle != self.bundle:
            self.bundle = bundle
            self._changed()

    def _one(self, *names: str, needed: bool = True) -> bytes:
        for name in names:
            try:
                return (self._folder / name).read_bytes()
            except FileNotFoundError:
                continue
        if needed:
            raise FileNotFoundError(f"neither {' nor '.join(names)} is there")
        return b""
