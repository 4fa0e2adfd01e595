"""Asks extenders over HTTP."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import TracebackType
from typing import Any, Self

import aiohttp
import anyio
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.failures import reason_of
from koord_service.http_bodies import read_body

from koord_scheduler.extenders.api_documents import ApiDocuments
from koord_scheduler.extenders.calls import BindCall, ExtenderCall
from koord_scheduler.extenders.extender import Extender, ExtenderTLS, interested
from koord_scheduler.framework.decisions import Placement

_MOST_BYTES = 1 << 30
_JSON = {"Content-Type": "application/json"}

Contexts = Mapping[Extender, ssl.SSLContext]


def tls_contexts(extenders: Sequence[Extender]) -> Contexts:
    """Return the TLS contexts of extenders that have settings of their own.

    Raises:
        ValueError: a file or a certificate of one cannot be used; one line.
    """
    found = {}
    for secured in (extender for extender in extenders if extender.tls != ExtenderTLS()):
        try:
            found[secured] = _context(secured.tls)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            reason = f"tlsConfig cannot be used: {error}"
            raise ValueError(f"extender {secured.url}: {reason}") from None
    return found


class ExtenderClient:
    """The connections to ``extenders``; to be entered. ``on_warning`` hears of failed calls."""

    def __init__(
        self,
        extenders: Sequence[Extender],
        contexts: Contexts,
        documents: ApiDocuments,
        *,
        on_warning: OnWarning = ignore_warning,
    ) -> None:
        self._extenders = extenders
        self._contexts = contexts
        self._documents = documents
        self._on_warning = on_warning
        self._sessions: dict[Extender, aiohttp.ClientSession] = {}

    async def __aenter__(self) -> Self:
        for extender in self._extenders:
            connector = aiohttp.TCPConnector(ssl=self._contexts.get(extender, True))
            timeout = aiohttp.ClientTimeout(total=extender.timeout)
            self._sessions[extender] = aiohttp.ClientSession(
                connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            for session in self._sessions.values():
                await session.close()

    async def ask(self, calls: Sequence[ExtenderCall]) -> list[Any]:
        """The answer to each call, all of them at once; ``CallFailure`` where one failed."""
        answers: list[Any] = [None] * len(calls)

        async def ask(place: int) -> None:
            answers[place] = await self._ask(calls[place])

        async with anyio.create_task_group() as group:
            for place in range(len(calls)):
                group.start_soon(ask, place)
        return answers

    def binder(self, placement: Placement) -> BindCall | None:
        """The call by which an extender binds a pod, if one does."""
        pod = placement.pod
        for one in interested(self._extenders, pod.waiting.pod_class):
            if one.bind_verb:
                return BindCall(one, pod.key, pod.uid, placement.node)
        return None

    async def _ask(self, call: ExtenderCall) -> Any:
        try:
            return call.answer(await self._post(call))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failure = call.failure(reason_of(error))
            self._on_warning(failure.text)
            return failure

    async def _post(self, call: ExtenderCall) -> bytes:
        body, name = call.body(self._documents), call.extender.tls.server_name or None
        session = self._sessions[call.extender]
        async with session.post(
            call.url, data=body, headers=_JSON, server_hostname=name
        ) as response:
            if response.status != 200:
                raise ValueError(f"code {response.status}")
            return await read_body(response.content.iter_any(), _MOST_BYTES)


def _context(tls: ExtenderTLS) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=_pem(tls.ca_data, tls.ca_file).decode() or None)
    if not tls.verifies:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if (tls.cert_data or tls.cert_file) and (tls.key_data or tls.key_file):
        with NamedTemporaryFile(suffix=".pem") as pair:  # the library reads nothing but files
            pair.write(
                _pem(tls.cert_data, tls.cert_file) + b"\n" + _pem(tls.key_data, tls.key_file)
            )
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


def _pem(data: bytes, path: str) -> bytes:
    return data or (Path(path).read_bytes() if path else b"")
