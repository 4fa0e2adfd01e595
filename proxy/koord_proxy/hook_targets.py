"""Targets of hook calls: hook servers over gRPC, and plugins in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol, cast
from urllib.parse import quote

from google.protobuf.message import DecodeError
from koord_hooks.protocol import HookRequest, HookResponse, answer, response_type
from koord_hooks.runner import HookResult, HookRunner
from koord_hooks.stages import SERVICE, Stage, rpc_path
from koord_model.node import NodeView
from koord_model.patch import Patch
from koord_service.breaker import Breaker
from koord_service.grpc_core import grpc
from koord_service.logs import get_log

from koord_proxy.contract.events import MAX_MESSAGE
from koord_proxy.rules.breaker import hook_breaker
from koord_proxy.rules.records import names_of
from koord_proxy.rules.registration import FailurePolicy, HookServerRegistration

log = get_log("koord_proxy.hooks")

LATE_SECONDS = 30.0
"""Time after its deadline for which an answer is still waited for, to see that it comes."""
PROBE_TIMEOUT = 1.5
"""Seconds a probe waits at most: a little longer than gRPC does between two connections."""

_CHANNEL_OPTIONS = (
    # After a restart the server is found again within a second, not minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # In spite of its name: how long a connection may take to come up. A busy server needs time.
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.enable_http_proxy", 0),
    # Channels to one address would otherwise share one connection.
    ("grpc.use_local_subchannel_pool", 1),
)


class HookError(Exception):
    """A hook call failed; ``outcome`` is its label in metrics.

    ``partial`` is the part of the response that is usable.
    """

    def __init__(
        self, outcome: str, message: str, *, reached: bool, partial: HookResponse | None = None
    ) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.partial = partial
        self.reached = reached
        """The server answered, with an error."""


class NotSubscribedError(Exception):
    """The server does not know this stage."""


class HookTarget(Protocol):
    """A hook server, or the plugins in this process."""

    name: str
    policy: FailurePolicy
    stages: frozenset[Stage]
    timeout: float | None
    waits: bool
    """True if a call may have to wait for another process."""
    breaker: Breaker

    async def ask(self, stage: Stage, hook_request: HookRequest) -> HookResponse:
        """The answer to one stage.

        Raises:
            HookError, NotSubscribedError: the server gave no valid response.
        """

    async def probe(self) -> bool:
        """Probe the target; return True if it answers anything at all."""

    async def close(self) -> None:
        """Give up its connections."""


class HookServerTarget:
    """A registered hook server. Each connection is a gRPC channel, used in turn."""

    def __init__(self, registration: HookServerRegistration) -> None:
        self.registration = registration
        self.name = registration.name
        self.policy = registration.policy
        self.stages = registration.stages
        self.timeout: float | None = registration.timeout
        self.waits = True
        self.breaker = hook_breaker()
        address = f"unix:{quote(registration.endpoint)}"
        self._channels = [
            grpc.aio.insecure_channel(address, options=_CHANNEL_OPTIONS)
            for _ in range(registration.connections)
        ]
        self._calls = [
            {stage: _stub(channel, stage) for stage in self.stages} for channel in self._channels
        ]
        self._turn = 0

    async def ask(self, stage: Stage, hook_request: HookRequest) -> HookResponse:
        self._turn = (self._turn + 1) % len(self._calls)
        deadline = self.registration.timeout + LATE_SECONDS
        try:
            answered = await self._calls[self._turn][stage](hook_request, timeout=deadline)
        except grpc.aio.AioRpcError as error:
            raise _translated(error) from None
        except grpc.aio.UsageError:
            # Closed, since it is not registered any more.
            raise HookError("unavailable", "no longer registered", reached=False) from None
        try:
            return response_type(stage).FromString(answered)
        except DecodeError:
            message = "the response is not a valid hook response"
            raise HookError("garbage", message, reached=True) from None

    async def probe(self) -> bool:
        # A method no server has: whoever answers that it has none is alive.
        probe: Callable[..., Awaitable[object]] = self._channels[0].unary_unary(f"/{SERVICE}/Probe")
        try:
            # Waiting for the connection: it may be between two attempts to come up.
            timeout = min(PROBE_TIMEOUT, self.registration.timeout)
            await probe(b"", timeout=timeout, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            return error.code() not in (
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.DEADLINE_EXCEEDED,
            )
        except grpc.aio.UsageError:
            return False
        return True

    async def close(self) -> None:
        for channel in self._channels:
            with contextlib.suppress(Exception):
                await channel.close()


def _stub(channel: grpc.aio.Channel, stage: Stage) -> Callable[..., Awaitable[bytes]]:
    # gRPC would turn an answer that it cannot parse into None.
    return cast(
        "Callable[..., Awaitable[bytes]]",
        channel.unary_unary(
            rpc_path(stage), request_serializer=lambda message: message.SerializeToString()
        ),
    )


def _translated(error: grpc.aio.AioRpcError) -> Exception:
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return NotSubscribedError()
    if code is grpc.StatusCode.UNAVAILABLE:
        return HookError("unavailable", f"unreachable ({details})", reached=False)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return HookError("timeout", "no answer", reached=False)
    return HookError("refused", f"{code.name}: {details}", reached=True)


class InProcessTarget:
    """Hook plugins loaded into the proxy itself: no server, no deadline."""

    def __init__(self, runner: HookRunner, view: NodeView) -> None:
        self.policy = FailurePolicy.IGNORE
        self.timeout: float | None = None
        self.waits = False
        self.name = "in-process"
        self.stages = frozenset(runner.stages())
        self.breaker = hook_breaker()
        self._runner = runner
        self._view = view

    async def ask(self, stage: Stage, hook_request: HookRequest) -> HookResponse:
        response, outcome = answer(self._runner, stage, hook_request, self._view)
        # Logged once the call has gone on.
        asyncio.get_running_loop().call_soon(_log_outcome, stage, hook_request, outcome)
        if outcome.failures:
            names = ", ".join(name for name, _ in outcome.failures)
            raise HookError("failed", f"plugin {names} failed", reached=True, partial=response)
        return response

    async def probe(self) -> bool:
        await asyncio.sleep(0)
        return True

    async def close(self) -> None:
        pass


def _log_outcome(stage: Stage, hook_request: HookRequest, outcome: HookResult[Patch]) -> None:
    names = names_of(hook_request)
    for name, error in outcome.failures:
        log.error("plugin failed", plugin=name, stage=stage, error=str(error), **names)
    for conflict in outcome.conflicts:
        log.warning("plugins disagree", stage=stage, conflict=str(conflict), **names)
    for line in outcome.patch.ignored:
        log.warning("field ignored", stage=stage, reason=line, **names)
    if outcome.patch.why:
        log.info("changed", stage=stage, why=outcome.patch.why, **names)
