"""Authentication of webhooks' callers: API servers with a certificate or a token, if required.

Kubernetes' API servers show nothing by default, so by default everybody may. The server's own
health is for everybody always.
"""

from __future__ import annotations

from pathlib import Path

from aiohttp import web
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import Api, ApiError
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.work_queue import WorkQueue

from koord_serving.admission.core.caller_rules import CallerRules
from koord_serving.delegated_auth.authenticator import DelegatedAuthenticator
from koord_serving.delegated_auth.core.reviews import bearer_token
from koord_serving.tls.core.peer_names import common_names
from koord_serving.tls.server_tls import CertificateError, ListenerTls

_SECONDS = 10.0  # a mounted file changes by a renamed link, which no watch on it sees


class UnknownCallerError(Exception):
    """Rejection of a caller; one line, with the HTTP ``status``."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class WebhookCallers:
    """Checks callers by ``rules``; ``api`` reviews their tokens."""

    def __init__(
        self, rules: CallerRules, api: Api | None, *, on_warning: OnWarning = ignore_warning
    ) -> None:
        self._rules = rules
        self._on_warning = on_warning
        self._tls: ListenerTls | None = None
        self._users = (
            DelegatedAuthenticator(api, audience=rules.audience)
            if api is not None and rules.audience
            else None
        )
        self.problem = f"{rules.ca_file}: not read yet" if rules.ca_file else ""
        """Reason why no client can show a certificate, in a line; "" if one can."""

    @property
    def asks_for_certificates(self) -> bool:
        """True if clients are asked for a certificate in the handshake."""
        return bool(self._rules.ca_file)

    def listens(self, tls: ListenerTls) -> None:
        """Have this listener trust the authority; until it is read it trusts none."""
        self._tls = tls
        self._read_file()

    async def check(self, request: web.Request) -> None:
        """Return if who asks may.

        Raises:
            UnknownCallerError: it may not, or the API server cannot be asked.
        """
        if not self._rules.ca_file and self._users is None:
            return
        transport = request.transport
        shown = transport.get_extra_info("peercert") if transport else None
        if shown and self.asks_for_certificates:
            self._require(common_names(shown))
            return
        token = bearer_token(request.headers.get("Authorization", ""))
        if self._users is None or not token:
            raise UnknownCallerError(401, "show a client certificate or a token")
        try:
            user = await self._users.user(token, request.remote or "nobody")
        except ApiError as error:
            # What the API server says is not for unknown callers.
            self._on_warning(f"webhook callers: {error}")
            raise UnknownCallerError(503, "tokens cannot be reviewed now") from None
        if user is None:
            raise UnknownCallerError(401, "the token is not valid")
        self._require(frozenset({user.name}))

    async def run(self) -> None:
        """Read the authority again, until cancelled."""
        if not self._rules.ca_file:
            return
        loop = ReconcileLoop(
            "webhook clients' authority",
            self._reconcile,
            workers=1,
            queue=WorkQueue(cap=_SECONDS),
            on_warning=self._on_warning,
        )
        loop.add(self._rules.ca_file)
        await loop.run()

    def close(self) -> None:
        """Cancel reviews that are under way."""
        if self._users is not None:
            self._users.close()

    async def _reconcile(self, _file: str) -> float:
        self._read_file()
        if self.problem:
            raise OSError(self.problem)
        return _SECONDS

    def _read_file(self) -> None:
        """Trust what the file has now; one that cannot be used leaves the last one in force."""
        file = self._rules.ca_file
        if not file or self._tls is None:
            return
        try:
            self._tls.trust(Path(file).read_text())
            self.problem = ""
        except CertificateError as error:
            self.problem = f"{file}: {error}"
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not text"
            self.problem = f"{file}: {reason}"

    def _require(self, names: frozenset[str]) -> None:
        if self._rules.names and not names & self._rules.names:
            raise UnknownCallerError(403, "this caller is not one of --webhook-client-names")
