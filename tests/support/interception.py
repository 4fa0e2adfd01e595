"""The interceptor between a client that calls and hooks that want what the test says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from koord_hooks.protocol import respond
from koord_hooks.stages import Stage
from koord_model.patch import Patch
from koord_proxy.contract.events import CallEnded, RequestArrived, Treatment
from koord_proxy.contract.runtime_client import NotKubernetesError
from koord_proxy.dispatcher import Dispatcher
from koord_proxy.hook_targets import HookError
from koord_proxy.interceptor import InterceptedCall, Interceptor, SkipRule
from koord_proxy.metrics import Metrics
from koord_proxy.rules.breaker import hook_breaker
from koord_proxy.rules.records import RecordKind, RuntimeRecord
from koord_proxy.rules.registration import FailurePolicy
from koord_proxy.store import RecordStore
from koord_service.breaker import Breaker

from tests.support.docker_bodies import CONTAINER, SANDBOX
from tests.support.processes import PATIENCE
from tests.support.runtime_requests import RuntimeRequest, SentRequest

SKIP = "runtimeproxy.koordinator.sh/skip-hookserver"
AWAY = HookError("timeout", "no answer", reached=True)

LookUp = Callable[[RecordStore, RecordKind, str], Awaitable[RuntimeRecord | None]]


class _Over(Exception):
    """The test is over."""


class RefusedError(Exception):
    """The call was refused."""


@dataclass(eq=False)
class Hooks:
    """A target that wants what the test says, and notes what it was asked."""

    name: str = "hooks"
    wants: Patch | Exception = field(default_factory=Patch)
    policy: FailurePolicy = FailurePolicy.IGNORE
    stages: frozenset[Stage] = frozenset(Stage)
    timeout: float | None = None
    waits: bool = True
    breaker: Breaker = field(default_factory=hook_breaker)
    asked: list[tuple[Stage, Any]] = field(default_factory=list)
    hold: asyncio.Event | None = None

    async def ask(self, stage: Stage, hook_request: Any) -> Any:
        copy = type(hook_request)()
        copy.CopyFrom(hook_request)
        self.asked.append((stage, copy))
        if self.hold is not None:
            await self.hold.wait()
        if isinstance(self.wants, Exception):
            raise self.wants
        return respond(hook_request, self.wants)

    async def probe(self) -> bool:
        return True

    async def close(self) -> None:
        pass


class Runtime:
    """What the runtime has, as far as it is looked up; notes what it was asked for.

    ``error`` is raised after that; so is ``NotKubernetesError`` where something is of another
    kind.
    """

    def __init__(self, *records: RuntimeRecord, error: Exception | None = None) -> None:
        self.asked: list[tuple[RecordKind, str]] = []
        self._records = records
        self._error = error

    async def __call__(self, store: RecordStore, kind: RecordKind, id: str) -> RuntimeRecord | None:  # noqa: A002
        self.asked.append((kind, id))
        if self._error is not None:
            raise self._error
        for record in self._records:
            if record.id.startswith(id):
                if record.kind is not kind:
                    raise NotKubernetesError
                store.put(record)
                return record
        return None


@dataclass(eq=False)
class Client:
    """A connection, and the calls that are made on it.

    ``runtime`` makes and reads requests: ``cri_requests`` or ``docker_requests``.
    """

    runtime: ModuleType
    interceptor: Interceptor
    store: RecordStore
    hooks: Hooks
    calls: dict[int, InterceptedCall] = field(default_factory=dict)
    released: dict[int, bytes | None] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    stream: int = -1
    decided: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self, stream: int, message: bytes | None = None) -> None:
        self.released[stream] = message
        self.decided.set()

    def refuse(self, stream: int, message: str) -> None:
        self.refused[stream] = message
        self.decided.set()

    def close(self) -> None:
        raise AssertionError("closed")

    def handle(self, *requests: Any) -> None:
        self.interceptor.handle(self, self.calls, requests)

    def held(self, target: str) -> bool:
        return self.interceptor.route(target).treatment is Treatment.HOLD

    def arrive(self, request: RuntimeRequest, problem: str = "") -> int:
        """A request arrives, held or watched as its route says."""
        self.stream += 2
        target, message = request
        route = self.interceptor.route(target)
        assert route.treatment is not Treatment.RELAY
        read = None if problem else message
        self.decided.clear()
        self.handle(
            RequestArrived(self.stream, route.method, read, self.held(target), problem, target)
        )
        return self.stream

    async def ask(self, request: RuntimeRequest, problem: str = "") -> SentRequest | None:
        """The request that goes on; None if it goes as it came. Raises what refuses it."""
        stream, held = self.arrive(request, problem), self.held(request.target)
        if held:
            async with asyncio.timeout(PATIENCE):
                await self.decided.wait()
            # Decisions are counted when the loop turns.
            await asyncio.sleep(0)
        if stream in self.refused:
            raise RefusedError(self.refused[stream])
        assert (stream in self.released) is held
        message = self.released.get(stream)
        return None if message is None else self.runtime.read(request, message)

    async def run_pod(self, **more: Any) -> SentRequest | None:
        return await self.do(self.runtime.create_sandbox(**more), self.runtime.made(SANDBOX))

    async def create(self, **more: Any) -> SentRequest | None:
        return await self.do(self.runtime.create_container(**more), self.runtime.made(CONTAINER))

    async def do(self, request: RuntimeRequest, response: bytes | None = b"") -> SentRequest | None:
        """A whole call."""
        sent = await self.ask(request)
        await self.end(response)
        return sent

    async def end(self, response: bytes | None = b"") -> None:
        """The call made last ends; None for a failure."""
        self.handle(CallEnded(self.stream, response))
        for _ in range(5):
            await asyncio.sleep(0)

    def stages(self) -> list[str]:
        return [stage.value for stage, _ in self.hooks.asked]

    def record(self, id: str = CONTAINER) -> RuntimeRecord:  # noqa: A002
        record = self.store.get(RecordKind.POD if id == SANDBOX else RecordKind.CONTAINER, id)
        assert record is not None
        return record

    def hook_request(self, id: str = CONTAINER) -> Any:  # noqa: A002
        return self.record(id).hook_request

    def ids(self) -> set[str]:
        """What there are records of."""
        return {record.id for kind in RecordKind for record in self.store.records(kind)}

    def counted(self) -> dict[str, int]:
        return {
            f"{sample.labels['method']} {sample.labels['result']}": int(sample.value)
            for metric in self.interceptor._metrics.intercepted.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        }


@contextlib.asynccontextmanager
async def intercepting(
    runtime: ModuleType,
    tmp_path: Path,
    hooks: Hooks | None = None,
    adopt: LookUp | None = None,
    others: Iterable[Hooks] = (),
    refresh: Callable[[RuntimeRecord], Awaitable[bool]] | None = None,
) -> AsyncIterator[Client]:
    """A client of a runtime, with an interceptor behind it.

    ``adopt`` looks up what is unknown; without it nothing is to be looked up. ``refresh`` looks
    up the limits of what is known.
    """
    hooks = hooks or Hooks()
    store = RecordStore(str(tmp_path / "state.db"))

    async def look_up(kind: RecordKind, id: str) -> RuntimeRecord | None:  # noqa: A002
        assert adopt is not None, f"{kind} {id} is looked up"
        return await adopt(store, kind, id)

    try:
        async with asyncio.TaskGroup() as tasks:
            metrics = Metrics()
            dispatcher = Dispatcher(metrics, tasks)
            dispatcher.replace([hooks, *others])
            interceptor = Interceptor(
                api=runtime.api(store),
                store=store,
                dispatcher=dispatcher,
                metrics=metrics,
                tasks=tasks,
                skip=SkipRule(SKIP, "true"),
                adopt=look_up,
                refresh=refresh,
                reports_requested=True,
            )
            yield Client(runtime, interceptor, store, hooks)
            raise _Over
    except* _Over:
        pass
    finally:
        store.close()


def said(caplog: Any) -> list[str]:
    return [record.getMessage() for record in caplog.records]
