"""Reports straight to the manager's leader: finds it, and follows it when it changes.

The address is a Service: of the leader alone, or of all managers (headless). All it
resolves to are asked in turn until one accepts; nobody else is, whatever a server says.
The one that accepted is asked first the next time. What fails in one report is found anew
in the next, so that a new leader is found within one report interval.

Over TLS the server's certificate must be of the configured name and by the given CA.
Without TLS only loopback addresses are spoken to, and no token is sent.

The token is for managers alone. One that the API server takes could evict pods in the hands
of whoever runs a manager, so it is never sent.
"""

from __future__ import annotations

import asyncio
import ipaddress
import random
import re
import secrets
import socket
from pathlib import Path

from koord_kube.credentials import Anonymous, Credentials
from koord_model.excerpt import excerpt
from koord_model.service_account_token import MANAGER_AUDIENCE, claims_of
from koord_proto.node_metric_pb2 import DESCRIPTOR, ReportRequest, ReportResponse
from koord_service.addresses import host_port
from koord_service.grpc_core import grpc

ATTEMPT_SECONDS = 3.0
"""Time for one server to answer; the leader answers within milliseconds."""

_METHOD = f"/{DESCRIPTOR.services_by_name['NodeMetrics'].full_name}/Report"
_MOST_ATTEMPTS = 16
_REASON = 200
"""Letters of a server's own reason that are reported."""
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    # A new channel connects at once, whatever became of others to the same address.
    ("grpc.use_local_subchannel_pool", 1),
)
_RANDOM = random.SystemRandom()

Place = tuple[str, int]
"""IP address and port."""

Metadata = tuple[tuple[str, str], ...]


class LinkError(Exception):
    """The report did not arrive; the message is one line that says what was tried."""


class DirectLink:
    """One node's way to the manager.

    ``credentials`` have the token that is for managers. ``ca_file`` is read anew for each
    connection; "" is no TLS.

    Raises:
        ValueError: the address is not HOST:PORT.
    """

    def __init__(
        self,
        address: str,
        node: str,
        *,
        ca_file: str = "",
        credentials: Credentials | None = None,
        attempt_seconds: float = ATTEMPT_SECONDS,
    ) -> None:
        self._host, self._port = parse_address(address)
        self._node = node
        self._ca_file = ca_file
        self._credentials = credentials or Anonymous()
        self._attempt_seconds = attempt_seconds
        self._session = secrets.token_hex(8)
        self._sequence = 0
        self._held: tuple[Place, grpc.aio.Channel] | None = None
        self._failed: set[Place] = set()

    @property
    def leader(self) -> str:
        """The server that accepted the last report; "" if none did."""
        held = self._held  # once: a status page asks from a thread of its own
        return host_port(*held[0]) if held else ""

    async def send(self, status: bytes, at: float, within: float) -> None:
        """Report a status of ``at`` (seconds since the epoch), in at most ``within`` seconds.

        Raises:
            LinkError: nobody accepted it.
        """
        self._sequence += 1
        request = ReportRequest(
            node=self._node,
            session=self._session,
            sequence=self._sequence,
            reported_at_ms=int(at * 1000),
            status=status,
        )
        tried: dict[str, str] = {}
        metadata = await self._metadata()
        try:
            async with asyncio.timeout(within):
                if await self._deliver(request, metadata, tried):
                    return
        except TimeoutError:
            await self._let_go()
            tried["all"] = f"not done within {within:g} s"
        said = "; ".join(f"{where}: {why}" for where, why in tried.items())
        raise LinkError(f"{self._host}:{self._port}: {said}")

    async def close(self) -> None:
        """Let go of the connection."""
        await self._let_go()

    async def _deliver(
        self, request: ReportRequest, metadata: Metadata, tried: dict[str, str]
    ) -> bool:
        """Ask one after the other, first who took the last report."""
        held = self._held
        if held is not None and await self._ask(held[0], request, metadata, tried):
            return True
        for place in (await self._all(tried))[:_MOST_ATTEMPTS]:
            if await self._ask(place, request, metadata, tried):
                return True
        return False

    async def _ask(
        self, place: Place, request: ReportRequest, metadata: Metadata, tried: dict[str, str]
    ) -> bool:
        """Send a report; return True if it was accepted, else the reason is in ``tried``."""
        shown = host_port(*place)
        try:
            await self._call(place, request, metadata)
        except (OSError, LinkError) as error:
            tried[shown] = str(error)
            self._failed.add(place)
        except grpc.aio.AioRpcError as error:
            tried[shown] = f"{error.code().name}: {excerpt(error.details() or '', _REASON)}"
            # Who does not lead is in good order.
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                self._failed.add(place)
        else:
            self._failed.discard(place)
            return True
        await self._let_go()
        return False

    async def _call(self, place: Place, request: ReportRequest, metadata: Metadata) -> None:
        if self._held is None or self._held[0] != place:
            await self._let_go()
            self._held = (place, self._channel(place))
        report = self._held[1].unary_unary(
            _METHOD,
            request_serializer=ReportRequest.SerializeToString,
            response_deserializer=ReportResponse.FromString,
        )
        await report(
            request,
            timeout=self._attempt_seconds,
            metadata=metadata,
            compression=grpc.Compression.Gzip,
        )

    def _channel(self, place: Place) -> grpc.aio.Channel:
        host, port = place
        target = f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
        if self._ca_file:
            credentials = grpc.ssl_channel_credentials(Path(self._ca_file).read_bytes())
            named = ("grpc.ssl_target_name_override", self._host)
            return grpc.aio.secure_channel(target, credentials, (*_OPTIONS, named))
        if not ipaddress.ip_address(host).is_loopback:
            raise LinkError("without TLS only loopback is spoken to; name a CA file")
        return grpc.aio.insecure_channel(target, _OPTIONS)

    async def _metadata(self) -> Metadata:
        if not self._ca_file:
            return ()
        try:
            # After a failure the token may be what was wrong: it rotates.
            header = await self._credentials.header(anew=bool(self._failed))
        except OSError as error:
            raise LinkError(str(error)) from None
        if header and (wrong := _wrong(header.removeprefix("Bearer "))):
            raise LinkError(f"the token for managers {wrong}; it is not sent")
        return (("authorization", header),) if header else ()

    async def _all(self, tried: dict[str, str]) -> list[Place]:
        """All the configured name stands for, in any order; those that failed last come last."""
        places = await self._resolved(self._host, self._port, tried)
        self._failed &= set(places)
        _RANDOM.shuffle(places)
        return sorted(places, key=lambda place: place in self._failed)

    async def _resolved(self, host: str, port: int, tried: dict[str, str]) -> list[Place]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            # UnicodeError: a label of the name is too long, or empty.
            tried[host] = getattr(error, "strerror", None) or str(error)
            return []
        return list(dict.fromkeys((str(where[0]), int(where[1])) for *_, where in found))

    async def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            await held[1].close()


def parse_address(address: str) -> Place:
    """A host, without the brackets of IPv6, and a port.

    Raises:
        ValueError: it is no HOST:PORT.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match[2]) < 1 << 16:
        raise ValueError(f"{excerpt(address)} is not a valid address; expected HOST:PORT")
    return match[1].strip("[]"), int(match[2])


def _wrong(token: str) -> str:
    """Return why a token is not for managers alone; "" if it is."""
    claims = claims_of(token)
    if claims is None:
        return "is not a service account's"
    if claims.audiences == (MANAGER_AUDIENCE,):
        return ""
    theirs = excerpt(", ".join(claims.audiences), _REASON)
    return f"is for {theirs}, not for {MANAGER_AUDIENCE} alone"
