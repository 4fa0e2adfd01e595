"""Keeps the certificates in their Secret, and shows the server's to clients.

At the first start any replica makes the Secret; the others take what they find. Later the
leader alone renews, and all follow. Where somebody deletes the Secret, what was in it is put
back without the authority's key: so another authority is announced, and none of those who
trust this one is lost. Nothing of the Secret's data is ever logged.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import anyio
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api, Object
from koord_kube.protocol.resources import SECRETS
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.shared_backoff import backoff_of
from koord_kube.views.metadata import read_resource_version
from koord_kube.work_queue import WorkQueue
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log

from koord_serving.create_or_update import create_or_update
from koord_serving.tls.core import certificates
from koord_serving.tls.server_tls import CertificateError, ServerTls

log = get_log("manager.certificates")

SECRET_NAME = "koordinator-webhook-certs"  # noqa: S105 - the name of one
_SECONDS = 60.0
_SOON = 1.0
_LONGEST_RETRY_SECONDS = 30.0


def _utc() -> datetime:
    return datetime.now(UTC)


class CertificateSecret:
    """``names`` are those that the server's certificate is for, the one clients use first.

    ``api`` is not fenced: a Secret that is missing is made without waiting for a leader.
    ``changed`` is called when ``bundle`` has changed.
    """

    def __init__(
        self,
        api: Api,
        tls: ServerTls,
        names: Sequence[str],
        *,
        namespace: str,
        secret: str = SECRET_NAME,
        leads: Callable[[], bool],
        changed: Callable[[], None] = lambda: None,
        now: Callable[[], datetime] = _utc,
        on_warning: OnWarning = ignore_warning,
    ) -> None:
        self._api = api
        self._tls = tls
        self._names = names
        self._namespace = namespace
        self._secret = secret
        self._leads = leads
        self._changed = changed
        self._now = now
        self._on_warning = on_warning
        self._problems = LogDeduplicator()
        self._last: certificates.SecretData = {}
        self.bundle = b""
        """Authorities for clients to trust, PEM; empty until the Secret was read."""

    async def run(self) -> None:
        """Until cancelled."""
        loop = ReconcileLoop(
            "certificates",
            lambda _key: self.once(),
            workers=1,
            queue=WorkQueue(cap=_LONGEST_RETRY_SECONDS),
            backoff=backoff_of(self._api),
            on_warning=self._on_warning,
        )
        loop.add(f"{self._namespace}/{self._secret}")
        informer = Informer(
            self._api,
            SECRETS,
            name=self._secret,
            namespace=self._namespace,
            decode=read_resource_version,
            on_change=lambda key, _before, _now: loop.add(key),
            on_warning=self._on_warning,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(informer.run)
            await loop.run()

    async def once(self) -> float:
        """Bring the Secret to what it should be and follow it; seconds until the next look.

        Raises:
            ApiError: it cannot be read or written.
        """
        data: certificates.SecretData = {}
        reasons: tuple[str, ...] = ()

        def desired(found: Object | None) -> Object | None:
            nonlocal data, reasons
            data, reasons = _data(found), ()
            known = data or self._lost()
            plan = certificates.plan(known, self._now(), self._names)
            given = known if plan.data is None else plan.data
            if given == data or not (found is None or self._leads()):
                return None
            data, reasons = given, plan.reasons
            return self._document(found, given)

        await create_or_update(self._api, SECRETS, self._secret, self._namespace, desired)
        for reason in reasons:
            log.info("certificates renewed", reason=reason)
        return self._follow(data)

    def _lost(self) -> certificates.SecretData:
        """Return the deleted Secret's data without its authority, which is to be replaced."""
        return {name: value for name, value in self._last.items() if name != certificates.CA_KEY}

    def _document(self, found: Object | None, data: certificates.SecretData) -> Object:
        meta = {"name": self._secret, "namespace": self._namespace}
        before = found or {"apiVersion": "v1", "kind": "Secret", "metadata": meta}
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        return {**before, "data": encoded}

    def _follow(self, data: certificates.SecretData) -> float:
        """Use what the Secret holds; an invalid certificate leaves the previous one in use."""
        now = self._now()
        bundle = certificates.bundle(data, now)
        certificate, key = data.get(certificates.CERT, b""), data.get(certificates.KEY, b"")
        try:
            if self._tls.use(certificate, key, now):
                log.info("certificate in use", until=self._tls.expiry())
            self._problems.clear()
        except CertificateError as error:
            if self._problems.is_new(str(error)):
                log.warning("certificate Secret is not usable", secret=self._secret, error=error)
            return _SOON
        self._last = data
        if bundle != self.bundle:
            self.bundle = bundle
            self._changed()
        return _SECONDS


def _data(found: Object | None) -> dict[str, bytes]:
    """The Secret's data; values that are not base64 are left out, and so made anew."""
    given: Any = (found or {}).get("data")
    read: dict[str, bytes] = {}
    for name, text in given.items() if isinstance(given, dict) else ():
        try:
            read[name] = base64.b64decode(text, validate=True)
        except (TypeError, binascii.Error, ValueError):
            continue
    return read
