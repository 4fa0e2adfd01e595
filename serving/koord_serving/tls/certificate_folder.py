"""Certificates in a folder that another program maintains: read, and read again on change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.work_queue import WorkQueue
from koord_service.logs import get_log

from koord_serving.tls.core import certificates
from koord_serving.tls.core.trusted_authorities import TrustedAuthorities
from koord_serving.tls.server_tls import CertificateError, ServerTls

log = get_log("manager.certificates")

# A mounted Secret changes by a renamed link, which no watch on its files sees.
_SECONDS = 10.0
_ANNOUNCED = timedelta(minutes=10)
"""Kubelets bring a changed Secret or ConfigMap to all pods within two or three minutes."""


def _utc() -> datetime:
    return datetime.now(UTC)


class CertificateFolder:
    """``tls.crt`` and ``tls.key``, or ``cert.pem`` and ``key.pem``; nothing is written.

    ``bundle`` is ``ca-cert.pem`` or ``ca.crt``, and what that was before; empty without either:
    then who keeps the folder keeps the caBundle of the webhook configurations, too. A certificate
    of another authority is shown once that is known to all clients.
    """

    def __init__(
        self,
        folder: Path,
        tls: ServerTls,
        *,
        changed: Callable[[], None] = lambda: None,
        now: Callable[[], datetime] = _utc,
        on_warning: OnWarning = ignore_warning,
    ) -> None:
        self._folder = folder
        self._tls = tls
        self._changed = changed
        self._now = now
        self._on_warning = on_warning
        self._trusted = TrustedAuthorities()
        self.bundle = b""

    async def run(self) -> None:
        """Read the files until cancelled, also while they are not usable."""
        loop = ReconcileLoop(
            "certificates",
            self._reconcile,
            workers=1,
            queue=WorkQueue(cap=_SECONDS),
            on_warning=self._on_warning,
        )
        loop.add(str(self._folder))
        await loop.run()

    async def _reconcile(self, _folder: str) -> float:
        self.read()
        return _SECONDS

    def read(self) -> None:
        """Use what the files hold now.

        Raises:
            CertificateError: they cannot be used; the certificate before stays in use.
            OSError: they cannot be read, likewise.
        """
        now = self._now()
        certificate = self._one(certificates.TLS_CERT, certificates.CERT)
        key = self._one(certificates.TLS_KEY, certificates.KEY)
        current = self._one(certificates.CA_CERT, "ca.crt", needed=False)
        if reason := certificates.problem(certificate, key, now):
            raise CertificateError(f"the server's certificate cannot be used: {reason}")
        self._trusted.see(current, now)
        if not self._waits(certificate, current, now) and self._tls.use(certificate, key, now):
            log.info("certificate in use", until=self._tls.expiry())
        bundle = self._trusted.bundle(current, now) if current else b""
        if bundle != self.bundle:
            self.bundle = bundle
            self._changed()

    def _waits(self, certificate: bytes, current: bytes, now: datetime) -> bool:
        """True if clients do not trust a certificate yet, and we have another one to show."""
        if not current or self._tls.problem(now):
            return False
        return not self._trusted.has_announced(certificate, now - _ANNOUNCED)

    def _one(self, *names: str, needed: bool = True) -> bytes:
        for name in names:
            try:
                return (self._folder / name).read_bytes()
            except FileNotFoundError:
                continue
        if needed:
            raise FileNotFoundError(f"neither {' nor '.join(names)} is there")
        return b""
