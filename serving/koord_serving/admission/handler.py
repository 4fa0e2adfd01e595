"""One HTTP request to a webhook: its bounds, its answer, and what is counted of it.

A webhook that fails answers 500: the configuration's failurePolicy says what that means.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Generic

from aiohttp import ClientPayloadError, web
from koord_service.logs import get_log

from koord_serving.admission.callers import UnknownCallerError, WebhookCallers
from koord_serving.admission.core import reviews
from koord_serving.admission.core.admission import AdmissionRequest, AdmissionResponse, V, Webhook
from koord_serving.admission.core.reviews import MOST_BYTES, AdmissionReviewError
from koord_serving.admission.metrics import AdmissionOutcome, WebhookMetrics

log = get_log("manager.webhooks")


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """Bounds of what is under way at once, and in seconds of how long one may take.

    API servers wait for 5 seconds as webhook configurations have it; an answer that would come
    later than ``answer`` is not worked for. ``held_bytes`` are those of all bodies together.
    """

    body: float = 3.0
    answer: float = 5.0
    requests: int = 2048
    held_bytes: int = 64 << 20


class _RefusedRequestError(Exception):
    """The request fails with an HTTP status and one line."""

    def __init__(self, status: int, outcome: AdmissionOutcome, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.outcome = outcome


class AdmissionHandler(Generic[V]):
    """Answers requests by ``webhooks``, which see the cluster as ``view`` shows it then.

    Only ``callers`` are answered.
    """

    def __init__(
        self,
        view: Callable[[], V],
        metrics: WebhookMetrics,
        limits: AdmissionLimits,
        callers: WebhookCallers,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._view = view
        self._metrics = metrics
        self._limits = limits
        self._callers = callers
        self._monotonic = monotonic
        self._held = 0
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def answer(self, request: web.Request, webhook: Webhook[V]) -> web.Response:
        """Answer a request; nothing that a client sends makes it raise."""
        started = self._monotonic()
        self._count(1)
        operation, status = "", 200
        try:
            await self._require_known(request)
            admission = await self._question(request)
            operation = admission.operation.value
            self._require_in_time(started)
            body, outcome = await self._decide(request.path, admission, webhook)
            response = web.Response(body=body, content_type="application/json")
        except _RefusedRequestError as error:
            outcome, status = error.outcome, error.status
            response = web.Response(text=f"{error}\n", status=status)
        finally:
            self._count(-1)
        self._metrics.requests.labels(request.path, operation, outcome).inc()
        self._metrics.seconds.labels(request.path).observe(self._monotonic() - started)
        if status != 200:
            # What is left of the body is not worth waiting for.
            response.force_close()
        return response

    async def wait_idle(self) -> None:
        """Until nothing is under way, or what is has had its time."""
        try:
            async with asyncio.timeout(self._limits.answer):
                await self._idle.wait()
        except TimeoutError:
            pass  # it is stuck, and is ended with the rest

    def _count(self, more: int) -> None:
        self._under_way += more
        self._metrics.in_flight.set(self._under_way)
        if self._under_way:
            self._idle.clear()
        else:
            self._idle.set()

    async def _require_known(self, request: web.Request) -> None:
        try:
            await self._callers.check(request)
        except UnknownCallerError as error:
            raise _RefusedRequestError(
                error.status, AdmissionOutcome.UNKNOWN_CALLER, str(error)
            ) from None

    async def _question(self, request: web.Request) -> AdmissionRequest:
        if self._under_way > self._limits.requests:
            raise _busy(f"{self._limits.requests} requests are under way")
        if request.content_type != "application/json":
            raise _RefusedRequestError(415, AdmissionOutcome.MALFORMED, "expected application/json")
        try:
            async with asyncio.timeout(self._limits.body):
                return reviews.read(await self._body(request))
        except AdmissionReviewError as error:
            raise _RefusedRequestError(
                error.status, AdmissionOutcome.MALFORMED, str(error)
            ) from None
        except TimeoutError:
            said = f"the body did not arrive within {self._limits.body:g} s"
            raise _RefusedRequestError(408, AdmissionOutcome.LATE, said) from None
        except (OSError, ClientPayloadError, web.RequestPayloadError) as error:
            said = f"the body broke off: {type(error).__name__}"
            raise _RefusedRequestError(400, AdmissionOutcome.LEFT, said) from None

    async def _body(self, request: web.Request) -> bytes:
        """The whole of it; what all requests together hold is bounded, too."""
        pieces: list[bytes] = []
        size = 0
        try:
            async for piece in request.content.iter_any():
                size += len(piece)
                self._held += len(piece)
                pieces.append(piece)
                if size > MOST_BYTES:
                    break  # it is refused by its length
                if self._held > self._limits.held_bytes:
                    raise _busy(f"{self._limits.held_bytes} bytes of requests are held")
        finally:
            self._held -= size
        return b"".join(pieces)

    def _require_in_time(self, started: float) -> None:
        if self._monotonic() - started > self._limits.answer:
            said = f"no answer within {self._limits.answer:g} s: too much to do"
            raise _RefusedRequestError(504, AdmissionOutcome.LATE, said)

    async def _decide(
        self, path: str, admission: AdmissionRequest, webhook: Webhook[V]
    ) -> tuple[bytes, AdmissionOutcome]:
        try:
            verdict = webhook(admission, self._view())
            if isinstance(verdict, Awaitable):
                verdict = await verdict
            body = reviews.answer(admission, verdict)
        except Exception as error:  # whatever it is, it costs this request only
            log.error(
                "webhook failed",
                webhook=path,
                operation=admission.operation.value,
                resource=admission.resource,
                object=f"{admission.namespace}/{admission.name}",
                # Not its message: that may quote what is in the object.
                error=type(error).__name__,
                at=_place(error),
            )
            said = f"the webhook failed: {type(error).__name__}"
            raise _RefusedRequestError(500, AdmissionOutcome.FAILED, said) from None
        return body, _outcome(admission, verdict)


def _outcome(admission: AdmissionRequest, verdict: AdmissionResponse) -> AdmissionOutcome:
    if verdict.refusal:
        return AdmissionOutcome.REFUSED
    return (
        AdmissionOutcome.CHANGED
        if reviews.changes(admission, verdict)
        else AdmissionOutcome.ADMITTED
    )


def _busy(message: str) -> _RefusedRequestError:
    return _RefusedRequestError(503, AdmissionOutcome.BUSY, message)


def _place(error: Exception) -> str:
    """File and line where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
