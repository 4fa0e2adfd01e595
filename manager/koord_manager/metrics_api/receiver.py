"""Takes what nodes report straight to the manager's leader, and tells it on.

Of each report that was taken only so much is known as the next one is judged by, in memory
alone: after a restart or a change of the leader every node reports anew within its report
interval.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, NoReturn

import msgspec
from koord_kube.api import ApiError
from koord_proto.node_metric_pb2 import DESCRIPTOR, ReportRequest, ReportResponse
from koord_service.grpc_core import grpc

SERVICE = DESCRIPTOR.services_by_name["NodeMetrics"].full_name
LEADER_KEY = "koord-leader"
"""Of the trailing metadata in which others say where the leader is."""

SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", 1 << 20),
    # Two servers at one port would share the nodes between them.
    ("grpc.so_reuseport", 0),
    # The connection of a node that is gone is noticed, and let go of.
    ("grpc.keepalive_time_ms", 120_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Each connection keeps a buffer for what is sent of so much; answers are a few bytes.
    ("grpc.tsi.max_frame_size", 1024),
)
"""For the server this is added to: a thousand pods are a fifth of a megabyte."""

_TAKEN = ReportResponse()
_Context = grpc.aio.ServicerContext[ReportRequest, ReportResponse]


class Standing(NamedTuple):
    """Whether this manager leads; else where the leader takes reports, "" if not known."""

    leads: bool
    leader: str = ""


Admit = Callable[[str, str], Awaitable[str]]
"""Given a bearer token ("" without one) and a node's name: why that node may not be reported
for with it, or "" where it may. Raises ApiError where nobody can say at present."""

Received = Callable[[str, bytes, float], None]
"""Hears of each report that is taken: node, status, and when it came by a steady clock."""


class _Taken(NamedTuple):
    """A node's newest report; ``followed`` is the session that this one came after, or ""."""

    session: str
    sequence: int
    size: int
    followed: str


class Receiver:
    """The service.

    ``capacity`` bounds the nodes that it takes reports of, ``most_bytes`` their newest
    statuses together; one that is forgotten makes room. Who hears what was ``received`` is to
    keep no more than the newest of each node.
    """

    def __init__(
        self,
        standing: Callable[[], Standing],
        admit: Admit,
        *,
        received: Received,
        answered: Callable[[grpc.StatusCode | None], None] = lambda _code: None,
        capacity: int = 25_000,
        most_bytes: int = 1 << 30,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._standing = standing
        self._admit = admit
        self._received = received
        self._answered = answered
        self._capacity = capacity
        self._most_bytes = most_bytes
        self._monotonic = monotonic
        self._newest: dict[str, _Taken] = {}
        self.bytes = 0
        """Of the newest statuses of all nodes."""

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve on a server."""
        method = grpc.unary_unary_rpc_method_handler(
            self._report,
            request_deserializer=ReportRequest.FromString,
            response_serializer=ReportResponse.SerializeToString,
        )
        handler = grpc.method_handlers_generic_handler(SERVICE, {"Report": method})
        server.add_generic_rpc_handlers((handler,))

    def forget(self, node: str) -> None:
        """The node is no more; what an older session of it still sends is taken as new."""
        before = self._newest.pop(node, None)
        self.bytes -= before.size if before else 0

    def clear(self) -> None:
        """Forget all nodes: a new term begins with nothing."""
        self._newest.clear()
        self.bytes = 0

    async def _report(self, request: ReportRequest, context: _Context) -> ReportResponse:
        await self._require_leading(context)
        try:
            refusal = await self._admit(_token(context), request.node)
        except ApiError as error:
            said = f"whose the token is cannot be asked at present: {error}"
            await self._refuse(context, grpc.StatusCode.UNAVAILABLE, said)
        # It may have taken a while.
        await self._require_leading(context)
        if refusal:
            await self._refuse(context, grpc.StatusCode.PERMISSION_DENIED, refusal)
        code, reason = self._take(request)
        if code is not None:
            await self._refuse(context, code, reason)
        self._answered(None)
        return _TAKEN

    async def _require_leading(self, context: _Context) -> None:
        standing = self._standing()
        if standing.leads:
            return
        self.clear()
        where = ((LEADER_KEY, standing.leader),) if standing.leader else ()
        said = f'the leader is "{standing.leader}"' if standing.leader else "nobody is known to"
        message = f"this manager does not lead; {said}"
        await self._refuse(context, grpc.StatusCode.FAILED_PRECONDITION, message, where)

    async def _refuse(
        self,
        context: _Context,
        code: grpc.StatusCode,
        reason: str,
        metadata: tuple[tuple[str, str], ...] = (),
    ) -> NoReturn:
        self._answered(code)
        await context.abort(code, reason, metadata)

    def _take(self, request: ReportRequest) -> tuple[grpc.StatusCode | None, str]:
        """Take the report, or say why not; no await between the check and the taking."""
        node, session = request.node, request.session
        if not node or not session:
            return grpc.StatusCode.INVALID_ARGUMENT, "node or session is empty; expected both"
        status = _object(request.status)
        if not status:
            return grpc.StatusCode.INVALID_ARGUMENT, f"status of {node} is no JSON object"
        before, sequence = self._newest.get(node), request.sequence
        if before and before.followed == session:
            return grpc.StatusCode.ABORTED, f"{node}: another session has followed this one"
        if before and before.session == session and sequence < before.sequence:
            said = f"{node}: report {sequence} is older than {before.sequence}"
            return grpc.StatusCode.ABORTED, said
        if before is None and len(self._newest) >= self._capacity:
            said = f"{self._capacity} nodes are kept, which is all there is room for"
            return grpc.StatusCode.RESOURCE_EXHAUSTED, said
        more = len(status) - (before.size if before else 0)
        if more > 0 and self.bytes + more > self._most_bytes:
            said = f"{self._most_bytes} bytes are kept, which is all there is room for"
            return grpc.StatusCode.RESOURCE_EXHAUSTED, said
        followed = ""
        if before is not None:
            followed = before.followed if before.session == session else before.session
        self._newest[node] = _Taken(session, sequence, len(status), followed)
        self.bytes += more
        self._received(node, status, self._monotonic())
        return None, ""


def _token(context: _Context) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and isinstance(value, str):
            return value.removeprefix("Bearer ")
    return ""


def _object(status: bytes) -> bytes:
    """The status as it may go into other JSON and onto one line; empty where it is no object.

    It is read through but not taken apart, which would be most of what a report costs.
    """
    try:
        status.decode()
        given = bytes(msgspec.json.decode(status, type=msgspec.Raw))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return b""
    if not given.startswith(b"{"):
        return b""
    # Line ends are between values only; inside of text JSON has none.
    return given.replace(b"\r", b" ").replace(b"\n", b" ") if b"\n" in given else given
