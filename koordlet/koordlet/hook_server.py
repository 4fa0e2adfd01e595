"""The hook protocol's server: a CRI proxy asks, the plugins answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection
from time import perf_counter
from urllib.parse import quote

from koord_hooks import protocol
from koord_hooks.protocol import HookRequest, HookResponse
from koord_hooks.runner import HookRunner, Outcome
from koord_hooks.stages import SERVICE, Stage
from koord_model.node import NodeView
from koord_model.patch import Patch
from koord_proto import hook_pb2 as pb
from koord_service.grpc_core import grpc
from koord_service.logs import get_log
from koord_service.sockets import listen_unix

from koordlet.metrics import HookMetrics

_log = get_log("koordlet.hooks")

_MODE = 0o660
# As much as our proxy holds of one call; grpc's own limit is 4 MiB.
_OPTIONS = (("grpc.max_receive_message_length", 16 * 1024 * 1024),)
_NO_CHANGE = Patch()

_Context = grpc.aio.ServicerContext[HookRequest, HookResponse]
_Method = Callable[[HookRequest, _Context], Awaitable[HookResponse]]


class HookServer:
    """Serves every hook call; the plugins are asked at ``stages``, the rest is echoed.

    ``view`` is what plugins are told about the node; whoever knows better
    replaces it.
    """

    def __init__(
        self,
        runner: HookRunner,
        stages: Collection[Stage],
        metrics: HookMetrics,
        *,
        plugin_failure_fails: bool = False,
    ) -> None:
        self.view = NodeView()
        self._runner = runner
        self._stages = frozenset(stages)
        self._metrics = metrics
        self._plugin_failure_fails = plugin_failure_fails
        self._server: grpc.aio.Server | None = None

    async def start(self, path: str) -> None:
        """Answer on a unix socket from now on; a stale one is replaced.

        Raises:
            OSError: the socket is in use, or cannot be made.
            ValueError: the path is too long for a socket.
        """
        # grpc takes no listening socket over and would replace a live one, so the
        # path is claimed the careful way first, and then left to grpc.
        listen_unix(path, mode=_MODE).close()
        self._server = grpc.aio.server(options=_OPTIONS)
        handlers = {f"{stage.value}Hook": self._handler(stage) for stage in Stage}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        before = os.umask(0o777 & ~_MODE)
        try:
            self._server.add_insecure_port(f"unix:{quote(path)}")
        except RuntimeError as error:
            raise OSError(f"{path}: cannot listen: {error}") from None
        finally:
            os.umask(before)
        await self._server.start()

    async def stop(self, grace: float) -> None:
        """Take no new calls, and give those under way ``grace`` seconds."""
        if self._server is not None:
            await self._server.stop(grace)

    def _handler(self, stage: Stage) -> grpc.RpcMethodHandler[HookRequest, HookResponse]:
        return grpc.unary_unary_rpc_method_handler(
            self._asking(stage) if stage in self._stages else _echoing(),
            request_deserializer=protocol.request_type(stage).FromString,
            response_serializer=protocol.response_type(stage).SerializeToString,
        )

    def _asking(self, stage: Stage) -> _Method:
        async def method(request: HookRequest, context: _Context) -> HookResponse:
            started = perf_counter()
            response, outcome = protocol.answer(self._runner, stage, request, self.view)
            seconds = perf_counter() - started
            # Counted and told once the answer is on its way: a pod waits for it.
            loop = asyncio.get_running_loop()
            loop.call_soon(self._metrics.count, stage, outcome, seconds)
            loop.call_soon(_tell, stage, request, response, outcome)
            if outcome.failures and self._plugin_failure_fails:
                name, error = outcome.failures[0]
                message = f"hook plugin {name} failed at {stage.value}: {_reason(error)}"
                await context.abort(grpc.StatusCode.INTERNAL, message)
            return response

        return method


def _echoing() -> _Method:
    async def method(request: HookRequest, _: _Context) -> HookResponse:
        return protocol.respond(request, _NO_CHANGE)

    return method


def _tell(stage: Stage, request: HookRequest, response: HookResponse, outcome: Outcome[Patch]) -> None:
    """One log line for what changed, for each conflict, and for each plugin that failed."""
    if not (outcome.wished or outcome.failures or outcome.patch.ignored):
        return
    subject = _subject(stage, request)
    for name, error in outcome.failures:
        _log.error("hook plugin failed", **subject, plugin=name, reason=_reason(error))
    for conflict in outcome.conflicts:
        _log.warning("plugins disagree, field left alone", **subject, conflict=str(conflict))
    for line in outcome.patch.ignored:
        _log.warning("field ignored", **subject, reason=line)
    if protocol.changes(request, response):
        _log.info("changed", **subject, why=outcome.patch.why)


def _subject(stage: Stage, request: HookRequest) -> dict[str, str]:
    pod = f"{request.pod_meta.namespace}/{request.pod_meta.name}"
    if isinstance(request, pb.PodSandboxHookRequest):
        return {"stage": stage.value, "pod": pod}
    return {"stage": stage.value, "pod": pod, "container": request.container_meta.name}


def _reason(error: Exception) -> str:
    """A plugin says ValueError in words for people; of anything else the kind matters too."""
    text = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())
