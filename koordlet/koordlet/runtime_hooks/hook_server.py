"""The hook protocol's server: a CRI proxy asks, the plugins answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from time import perf_counter
from typing import Protocol

from koord_hooks import protocol
from koord_hooks.protocol import HookRequest, HookResponse
from koord_hooks.runner import HookRunner
from koord_hooks.stages import SERVICE, Stage
from koord_model.node import NodeView
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_service.error_text import describe_error
from koord_service.grpc_core import grpc
from koord_service.grpc_sockets import listen
from koord_service.grpc_standard import (
    HealthCheckResponse,
    health,
    health_pb2_grpc,
    reflection,
)
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log

from koordlet.runtime_hooks.answered_requests import AnsweredRequests
from koordlet.runtime_hooks.hook_answers import HookAnswers, Transport
from koordlet.runtime_hooks.hook_log import log_answer
from koordlet.runtime_hooks.hook_metrics import HookMetrics
from koordlet.runtime_hooks.node_traces import NodeTraces

_log = get_log("koordlet.hooks")

_MODE = 0o660
# As much as our proxy holds of one call; grpc's own limit is 4 MiB.
_OPTIONS = (("grpc.max_receive_message_length", 16 * 1024 * 1024),)
_NO_CHANGE = Patch()

_Context = grpc.aio.ServicerContext[HookRequest, HookResponse]
PreparePod = Callable[[Pod], Awaitable[str]]
"""Gets ready what hooks need to know of a pod; returns why the pod must not start, or ""."""
_Method = Callable[[HookRequest, _Context], Awaitable[HookResponse]]


class HookNode(Protocol):
    """The node as the hook server sees it: the source of its view, the receiver of its events."""

    @property
    def view(self) -> NodeView:
        """The view of the node for plugins."""
        ...

    def current(self, container: Container) -> Container:
        """The container with its pod's labels and annotations as they are now."""
        ...

    def saw(self, stage: Stage, subject: Pod | Container) -> None:
        """Note a hook call about a pod or container."""
        ...


class UnknownNode:
    """A node without information, where nothing is reconciled."""

    view = NodeView()

    def current(self, container: Container) -> Container:
        """All that is known is in the call."""
        return container

    def saw(self, stage: Stage, subject: Pod | Container) -> None:
        """Do nothing."""


async def _nothing_to_prepare(_: Pod) -> str:
    return ""


class HookServer:
    """Serves every hook call; the plugins are asked at ``stages``, the rest is echoed.

    ``node`` gets all of them, ``answers`` what is answered, ``answered`` for NRI as well.
    ``prepare`` is waited for before plugins are asked about a pod that starts.
    """

    def __init__(
        self,
        runner: HookRunner,
        stages: Collection[Stage],
        metrics: HookMetrics,
        *,
        node: HookNode | None = None,
        deduplicator: LogDeduplicator | None = None,
        answers: HookAnswers | None = None,
        answered: AnsweredRequests | None = None,
        plugin_failure_fails: bool = False,
        prepare: PreparePod | None = None,
        traces: NodeTraces | None = None,
    ) -> None:
        self._traces = traces
        self._prepare = prepare or _nothing_to_prepare
        self._deduplicator = deduplicator or LogDeduplicator()
        self._answers = answers or HookAnswers()
        self._answered = answered or AnsweredRequests()
        self._node: HookNode = node or UnknownNode()
        self._runner = runner
        self._stages = frozenset(stages)
        self._metrics = metrics
        self._plugin_failure_fails = plugin_failure_fails
        self._health = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None

    async def start(self, path: str) -> None:
        """Answer on a unix socket from now on; a stale one is replaced.

        Raises:
            OSError: the socket is in use, or cannot be made.
            ValueError: the path is too long for a socket.
        """
        self._server = grpc.aio.server(options=_OPTIONS)
        handlers = {f"{stage.value}Hook": self._handler(stage) for stage in Stage}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        await self._add_standard_services(self._server)
        listen(self._server, path, _MODE)
        await self._server.start()

    async def _add_standard_services(self, server: grpc.aio.Server) -> None:
        """Reflection, for grpcurl and the like, and health, for probes."""
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        for service in ("", SERVICE):
            await self._health.set(service, HealthCheckResponse.SERVING)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)

    async def stop(self, grace: float) -> None:
        """Take no new calls, and give those under way ``grace`` seconds."""
        if self._server is not None:
            await self._health.enter_graceful_shutdown()
            await self._server.stop(grace)

    def _handler(self, stage: Stage) -> grpc.RpcMethodHandler[HookRequest, HookResponse]:
        return grpc.unary_unary_rpc_method_handler(
            self._asking(stage) if stage in self._stages else self._echoing(stage),
            request_deserializer=protocol.request_type(stage).FromString,
            response_serializer=protocol.response_type(stage).SerializeToString,
        )

    def _asking(self, stage: Stage) -> _Method:
        async def method(request: HookRequest, context: _Context) -> HookResponse:
            started = perf_counter()
            subject = protocol.subject_of(request)
            if isinstance(subject, Container):
                subject = self._node.current(subject)
            elif stage is Stage.PRE_RUN_POD_SANDBOX and (refusal := await self._prepare(subject)):
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, refusal)
            outcome = self._runner.run(stage, subject, self._node.view)
            if isinstance(subject, Container):
                self._answered.keep(subject, outcome.patch)
            response = protocol.respond(request, outcome.patch)
            seconds = perf_counter() - started
            # Count and log after the answer is sent: a pod waits for it.
            loop = asyncio.get_running_loop()
            loop.call_soon(self._metrics.count, stage, outcome, seconds)
            if self._traces is not None:
                loop.call_soon(self._traces.hooked, stage, subject, seconds)
            changed = protocol.changes(request, response)
            log = partial(
                log_answer, _log, self._deduplicator, stage, subject, outcome, changed=changed
            )
            loop.call_soon(log)
            loop.call_soon(self._answers.keep, Transport.HOOK_PROTOCOL, stage, subject, outcome)
            loop.call_soon(self._node.saw, stage, subject)
            if outcome.failures and self._plugin_failure_fails:
                name, error = outcome.failures[0]
                message = f"hook plugin {name} failed at {stage.value}: {describe_error(error)}"
                await context.abort(grpc.StatusCode.INTERNAL, message)
            return response

        return method

    def _echoing(self, stage: Stage) -> _Method:
        async def method(request: HookRequest, _: _Context) -> HookResponse:
            subject = protocol.subject_of(request)
            asyncio.get_running_loop().call_soon(self._node.saw, stage, subject)
            return protocol.respond(request, _NO_CHANGE)

        return method
