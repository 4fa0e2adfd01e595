"""A hook server that does as it is asked: answers, hangs, is late, talks garbage, refuses, dies."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, cast

import grpc
from koord_hooks.protocol import HookRequest, request_type, response_type
from koord_hooks.stages import SERVICE, Stage
from koord_proto import hook_pb2 as pb

from tests.support.processes import PATIENCE, until

ALL_STAGES = tuple(Stage)
LENIENT = 60.0
"""Seconds that a proxy waits for hook servers, where it is not the point that they are silent."""

_OPTIONS = (("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 32 << 20))


class Asked(NamedTuple):
    """A hook call as it arrived."""

    stage: Stage
    request: Any


Behaviour = Callable[[Asked, "Question"], bytes]


class Question:
    """One call under way, as the server sees it."""

    def __init__(self, server: HookServer, context: grpc.ServicerContext) -> None:
        self._server = server
        self._context = context
        self._over = threading.Event()
        self._answered = False
        context.add_callback(self._ended)

    def refuse(self, code: grpc.StatusCode, text: str) -> None:
        self._answered = True
        self._context.abort(code, text)

    def wait(self, event: threading.Event) -> None:
        """Wait for an event, or for the client to give up."""
        until(lambda: event.wait(0.02) or self._over.is_set(), "the test never let go")

    def answered(self) -> None:
        self._answered = True

    def _ended(self) -> None:
        self._over.set()
        if not self._answered:
            self._server.cancelled += 1


def echo(asked: Asked, _: Question) -> bytes:
    """Answer with the request, as the Go koordlet does where it has nothing to say."""
    return _echoed(asked).SerializeToString()


def nothing(_: Asked, __: Question) -> bytes:
    """An empty response: no wishes."""
    return b""


def garbage(_: Asked, __: Question) -> bytes:
    """What is no protobuf message."""
    return b"\xff\xff\xff\xff garbage"


def refusing(asked: Asked, question: Question) -> bytes:
    """A gRPC error."""
    question.refuse(grpc.StatusCode.FAILED_PRECONDITION, "not today")
    return b""


def wishing(
    *,
    resources: Mapping[str, int | str] | None = None,
    annotations: Mapping[str, str] | None = None,
    envs: Mapping[str, str] | None = None,
    cgroup_parent: str = "",
    stages: Iterable[Stage] = ALL_STAGES,
) -> Behaviour:
    """Echo, with these wishes laid over it where the stage has room for them."""

    def behave(asked: Asked, _: Question) -> bytes:
        response = _echoed(asked)
        if asked.stage in stages:
            if isinstance(response, pb.PodSandboxHookResponse):
                response.annotations.update(annotations or {})
                response.cgroup_parent = cgroup_parent or response.cgroup_parent
            else:
                response.container_annotations.update(annotations or {})
                response.container_envs.update(envs or {})
                for name, value in (resources or {}).items():
                    setattr(response.container_resources, name, value)
        return cast("bytes", response.SerializeToString())

    return behave


def waiting(event: threading.Event, then: Behaviour = echo) -> Behaviour:
    """Hang until the event is set or the client gives up; then answer."""

    def behave(asked: Asked, question: Question) -> bytes:
        question.wait(event)
        return then(asked, question)

    return behave


class HookServer:
    """A hook server on threads of this process. What it does may change at any time."""

    def __init__(self, directory: Path, name: str = "hooks", behave: Behaviour = echo) -> None:
        self.name = name
        self.socket = directory / f"{name}.sock"
        self.behave = behave
        self.asked: list[Asked] = []
        """Every call that arrived, in order."""
        self.cancelled = 0
        """Calls the client gave up."""
        self._server: grpc.Server | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.die()

    def start(self) -> None:
        self._threads = ThreadPoolExecutor(64)
        self._server = grpc.server(self._threads, options=_OPTIONS)
        handlers = {f"{stage.value}Hook": self._handler(stage) for stage in Stage}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()

    def die(self) -> None:
        """End at once, with calls under way; the socket's file may stay."""
        if self._server is not None:
            self._server.stop(0).wait(PATIENCE)
            self._server = None
            self._threads.shutdown()

    def register(
        self,
        hooks: Path,
        *,
        policy: str = "Ignore",
        stages: Iterable[Stage] = ALL_STAGES,
        **more: object,
    ) -> Path:
        """Write the registration as a careful server does: whole, then renamed."""
        hooks.mkdir(exist_ok=True)
        content = {
            "remote-endpoint": str(self.socket),
            "failure-policy": policy,
            "runtime-hooks": [stage.value for stage in stages],
            "timeout": LENIENT,
            **more,
        }
        file = hooks / f"{self.name}.json"
        half = file.with_suffix(".part")
        half.write_text(json.dumps(content))
        return half.rename(file)

    def requests(self, stage: Stage) -> list[Any]:
        """The requests of one stage, in order."""
        return [asked.request for asked in tuple(self.asked) if asked.stage is stage]

    def _handler(self, stage: Stage) -> grpc.RpcMethodHandler[bytes, bytes]:
        def method(data: bytes, context: grpc.ServicerContext) -> bytes:
            question = Question(self, context)
            asked = Asked(stage, request_type(stage).FromString(data))
            self.asked.append(asked)
            answer = self.behave(asked, question)
            question.answered()
            return answer

        return grpc.unary_unary_rpc_method_handler(method)


def _echoed(asked: Asked) -> Any:
    """The request's fields, as far as the response has them."""
    request: HookRequest = asked.request
    response: Any = response_type(asked.stage)()
    for field, value in request.ListFields():
        target = response.DESCRIPTOR.fields_by_name.get(field.name)
        if target is None:
            continue
        if isinstance(value, str | int):
            setattr(response, field.name, value)
        else:
            getattr(response, field.name).MergeFrom(value)
    return response
