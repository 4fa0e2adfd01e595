"""Writes of a program that makes thousands a second: over HTTP/2 where the API server speaks it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from koord_kube.answers import Answer, Cancellable, Settle, TaskSubmitter, answer_of
from koord_kube.client import Client
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.http2_writer import Http2UnsupportedError, Http2Writer
from koord_kube.protocol.request import Request


class ApiWriter:
    """Writes by HTTP/2, or by ``client`` where there is no TLS, a proxy, or no HTTP/2.

    Whether the server speaks HTTP/2 shows with the first write; ``on_warning`` gets a line once
    if it does not. ``leads`` is asked for each write that goes by HTTP/2 at the moment it leaves;
    ``client`` has to be fenced itself.
    """

    def __init__(
        self, client: Client, leads: Callable[[], bool], *, on_warning: OnWarning = ignore_warning
    ) -> None:
        cluster = client.cluster
        self._on_warning = on_warning
        has_tls = cluster.new_context is not None and not cluster.proxy
        self._http2 = Http2Writer(cluster, leads=leads) if has_tls else None
        self._uses_http2 = has_tls
        self._by_client = TaskSubmitter(client.write)

    def submit(self, request: Request, settle: Settle) -> Cancellable:
        """Send a write, and have ``settle`` called with its answer, later and once."""
        if self._http2 is not None and self._uses_http2:
            return self._http2.submit(request, partial(self._settle, request, settle))
        return self._by_client.submit(request, settle)

    async def write(self, request: Request) -> bytes:
        """Send a write and return the body of its answer.

        Raises:
            ApiError: it was refused, or there is no answer.
            NotLeadingError: it was not sent.
        """
        return await answer_of(self.submit, request)

    async def close(self) -> None:
        """End the connection over HTTP/2; writes under way there fail, others are cancelled."""
        if self._http2 is not None:
            await self._http2.close()
        await self._by_client.close()

    def _settle(self, request: Request, settle: Settle, answer: Answer) -> None:
        if isinstance(answer, Http2UnsupportedError):
            self._fall_back(answer)
            self._by_client.submit(request, settle)
        else:
            settle(answer)

    def _fall_back(self, error: Http2UnsupportedError) -> None:
        if self._uses_http2:  # of many writes that fail at once, the first
            self._uses_http2 = False
            self._on_warning(f"{error}; writes use HTTP/1.1, which costs more CPU time for each")
