"""Receives reports that nodes send directly to the manager's leader, and publishes them.

Anybody may call. So a call's token is looked at before its message is read: it takes four
times as long to unpack a megabyte as to refuse it.

Of each report that was taken only so much is known as the next one is judged by, in memory
alone: after a restart or a change of the leader every node reports anew within its report
interval.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, NoReturn

from google.protobuf.message import DecodeError
from koord_kube.definitions import node_metric
from koord_kube.definitions.strict_decoder import StrictDecoder
from koord_kube.protocol.api import ApiError
from koord_model.excerpt import excerpt
from koord_proto.node_metric_pb2 import DESCRIPTOR, ReportRequest, ReportResponse
from koord_service.grpc_core import grpc
from koord_serving.limits.core.concurrency_limit import ConcurrencyLimit

from koord_manager.node_metric.report_authorizer import ReportClaim

SERVICE = DESCRIPTOR.services_by_name["NodeMetrics"].full_name

HANDSHAKE_TIMEOUT = "grpc.server_handshake_timeout_ms"
SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", 1 << 20),
    # A node has one call at a time.
    ("grpc.max_concurrent_streams", 8),
    # Two servers at one port would share the nodes between them.
    ("grpc.so_reuseport", 0),
    # Who only connects is not waited for; gRPC's own two minutes would be long.
    (HANDSHAKE_TIMEOUT, 5_000),
    # The connection of a node that is gone is noticed, and let go of.
    ("grpc.keepalive_time_ms", 120_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Each connection keeps a buffer for what is sent of so much; answers are a few bytes.
    ("grpc.tsi.max_frame_size", 1024),
)
"""For the server this is added to: a thousand pods are a fifth of a megabyte."""

CALLS, CALLS_EACH = 4096, 64
"""At once, and of one address: all nodes behind a NAT may share one."""

_READ_SECONDS = 10.0
_STATUS = StrictDecoder(node_metric.STATUS)
"""Decoder of reports: they are served within other documents, so all must fit the schema."""

_TAKEN = ReportResponse()
_Context = grpc.aio.ServicerContext[bytes, ReportResponse]


Admit = Callable[[str, str], Awaitable[ReportClaim]]
"""Given a bearer token ("" without one) and the address that it came from: which node may be
reported for with it. Raises ApiError if the API server cannot be asked."""

Received = Callable[[str, bytes, float], None]
"""Hears of each report that is taken: node, status, and when it came by a steady clock."""


class _LatestReport(NamedTuple):
    """A node's newest report; ``followed`` is the session that this one came after, or ""."""

    session: str
    sequence: int
    size: int
    followed: str


class NodeMetricReceiver:
    """The service.

    ``capacity`` bounds the nodes that it takes reports of, ``most_bytes`` their newest
    statuses together; one that is forgotten makes room. Who hears what was ``received`` is to
    keep no more than the newest of each node.
    """

    def __init__(
        self,
        leads: Callable[[], bool],
        admit: Admit,
        *,
        received: Received,
        answered: Callable[[grpc.StatusCode | None], None] = lambda _code: None,
        on_warning: Callable[[str], None] = lambda _line: None,
        capacity: int = 25_000,
        most_bytes: int = 1 << 30,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._leads = leads
        self._admit = admit
        self._received = received
        self._answered = answered
        self._on_warning = on_warning
        self._calls = ConcurrencyLimit(CALLS, CALLS_EACH)
        self._capacity = capacity
        self._most_bytes = most_bytes
        self._monotonic = monotonic
        self._newest: dict[str, _LatestReport] = {}
        self.bytes = 0
        """Of the newest statuses of all nodes."""

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve on a server."""
        # As a stream, so that the one message is read only on demand.
        method: grpc.RpcMethodHandler[bytes, ReportResponse]
        method = grpc.stream_unary_rpc_method_handler(
            self._report, response_serializer=ReportResponse.SerializeToString
        )
        handler = grpc.method_handlers_generic_handler(SERVICE, {"Report": method})
        server.add_generic_rpc_handlers((handler,))

    def forget(self, node: str) -> None:
        """Forget a deleted node; a report of an older session counts as new."""
        before = self._newest.pop(node, None)
        self.bytes -= before.size if before else 0

    def clear(self) -> None:
        """Forget all nodes: a new term begins with nothing."""
        self._newest.clear()
        self.bytes = 0

    async def _report(self, _messages: AsyncIterator[bytes], context: _Context) -> ReportResponse:
        await self._require_leading(context)
        address = _address(context.peer())
        if not self._calls.enter(address):
            reason = "too many calls are under way"
            await self._refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, reason)
        try:
            return await self._answer(address, context)
        finally:
            self._calls.leave(address)

    async def _answer(self, address: str, context: _Context) -> ReportResponse:
        claim = await self._claim(address, context)
        request = await self._read(context)
        # It may have taken a while.
        await self._require_leading(context)
        if claim.node != request.node:
            reason = f"the token is of node {excerpt(claim.node)}, not of {excerpt(request.node)}"
            await self._refuse(context, grpc.StatusCode.PERMISSION_DENIED, reason)
        code, reason = self._take(request)
        if code is not None:
            await self._refuse(context, code, reason)
        self._answered(None)
        return _TAKEN

    async def _claim(self, address: str, context: _Context) -> ReportClaim:
        try:
            claim = await self._admit(_token(context), address)
        except ApiError as error:
            # What the API server says is not for unknown callers.
            self._on_warning(str(error))
            reason = "whose the token is cannot be asked at present"
            await self._refuse(context, grpc.StatusCode.UNAVAILABLE, reason)
        if claim.refusal:
            await self._refuse(context, grpc.StatusCode.PERMISSION_DENIED, claim.refusal)
        return claim

    async def _read(self, context: _Context) -> ReportRequest:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                message = await context.read()
        except TimeoutError:
            reason = f"no report within {_READ_SECONDS:g} s"
            await self._refuse(context, grpc.StatusCode.DEADLINE_EXCEEDED, reason)
        try:
            return ReportRequest.FromString(message)
        except (DecodeError, TypeError):  # grpc.aio.EOF is not bytes
            await self._refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "this is not a report")

    async def _require_leading(self, context: _Context) -> None:
        if self._leads():
            return
        self.clear()
        message = "this manager does not lead"
        await self._refuse(context, grpc.StatusCode.FAILED_PRECONDITION, message)

    async def _refuse(self, context: _Context, code: grpc.StatusCode, reason: str) -> NoReturn:
        self._answered(code)
        await context.abort(code, reason)

    def _take(self, request: ReportRequest) -> tuple[grpc.StatusCode | None, str]:
        """Accept the report, or return why not; no await between the check and the taking."""
        node, session = request.node, request.session
        if not session:
            return grpc.StatusCode.INVALID_ARGUMENT, f"the session of {node} is empty"
        try:
            status = _STATUS.normalized(request.status)
        except ValueError as error:
            return grpc.StatusCode.INVALID_ARGUMENT, f"NodeMetric of {excerpt(node)}: {error}"
        before, sequence = self._newest.get(node), request.sequence
        if before and before.followed == session:
            return grpc.StatusCode.ABORTED, f"{node}: another session has followed this one"
        if before and before.session == session and sequence < before.sequence:
            reason = f"{node}: report {sequence} is older than {before.sequence}"
            return grpc.StatusCode.ABORTED, reason
        if before is None and len(self._newest) >= self._capacity:
            reason = f"{self._capacity} nodes are kept, which is all there is room for"
            return grpc.StatusCode.RESOURCE_EXHAUSTED, reason
        more = len(status) - (before.size if before else 0)
        if more > 0 and self.bytes + more > self._most_bytes:
            reason = f"{self._most_bytes} bytes are kept, which is all there is room for"
            return grpc.StatusCode.RESOURCE_EXHAUSTED, reason
        followed = ""
        if before is not None:
            followed = before.followed if before.session == session else before.session
        self._newest[node] = _LatestReport(session, sequence, len(status), followed)
        self.bytes += more
        self._received(node, status, self._monotonic())
        return None, ""


def _address(peer: str) -> str:
    """Of "ipv4:10.0.0.1:4711" what its other connections have, too."""
    return peer.rpartition(":")[0]


def _token(context: _Context) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and isinstance(value, str):
            return value.removeprefix("Bearer ")
    return ""
