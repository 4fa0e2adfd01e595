"""What happens to an intercepted call: facts, hooks, the request sent on, the record.

Order of a held call: read it, find what is known of its pod, ask the hooks, write
what they changed into it, note what is expected, send it on. When it has ended:
keep the record or let it go, and ask the hooks that come after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from google.protobuf.message import DecodeError, Message
from koord_hooks.stages import Stage
from koord_service.logs import get_log

from koord_proxy.dispatch import Dispatcher, Verdict
from koord_proxy.events import (
    CallAbandoned,
    CallEnded,
    Request,
    RequestArrived,
    Route,
    Treatment,
)
from koord_proxy.metrics import Metrics
from koord_proxy.rules import facts as rules
from koord_proxy.rules.merge import Facts
from koord_proxy.rules.methods import INTERCEPTED, METHODS, Method
from koord_proxy.rules.records import Kind, Missed, Record, labels_of, names_of
from koord_proxy.rules.registration import Policy
from koord_proxy.store import Store

log = get_log("koord_proxy.calls")

UNAVAILABLE = 14
"""gRPC status of a call refused because a hook did not happen."""


class Decidable(Protocol):
    """Where the calls come from and decisions go: a connection."""

    def release(self, stream: int, message: bytes | None = None) -> None:
        """Send a held request on."""

    def refuse(self, stream: int, status: int, message: str) -> None:
        """Answer a held request with an error."""


@dataclass(slots=True)
class Call:
    """An intercepted call under way.

    ``record`` is that of its pod or container, if it is known; ``before`` the
    facts to go back to should an update fail.
    """

    method: Method
    request: Any
    record: Record | None = None
    facts: Facts | None = None
    before: Facts | None = None
    task: asyncio.Task[None] | None = None


class Decision(NamedTuple):
    """What becomes of a held call: ``message`` goes on in its place (None: as it came).

    ``result`` is the word for the metric; ``refusal``, if set, is what the client gets.
    """

    result: str
    message: bytes | None = None
    refusal: str = ""
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class SkipRule:
    """Pods with this label or annotation are not hooked; an empty key matches none."""

    key: str
    value: str

    def matches(self, facts: Facts) -> bool:
        """Whether the pod is left alone."""
        return bool(self.key) and any(
            known.get(self.key) == self.value for known in labels_of(facts)
        )


class Interceptor:
    """Handles the intercepted calls of all connections."""

    def __init__(
        self,
        *,
        store: Store,
        dispatcher: Dispatcher,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        skip: SkipRule,
        adopt: Callable[[Kind, str], Awaitable[Record | None]],
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._tasks = tasks
        self._adopt = adopt
        self.skip = skip

    def route(self, path: str) -> Route:
        """How a call is treated: held only where somebody wants to be asked first."""
        method = INTERCEPTED.get(path)
        tally = self._metrics.tally(path)
        if method is None:
            return Route(Treatment.RELAY, tally)
        held = method.pre is not None and self._dispatcher.subscribed[method.pre]
        return Route(Treatment.HOLD if held else Treatment.WATCH, tally, method.name)

    def handle(
        self, connection: Decidable, calls: dict[int, Call], requests: Iterable[Request]
    ) -> None:
        """Act on what a session wants; ``calls`` are those of its connection, by stream."""
        for request in requests:
            if isinstance(request, RequestArrived):
                self._arrived(connection, calls, request)
            elif isinstance(request, CallEnded):
                call = calls.pop(request.stream, None)
                if call is not None:
                    self._ended(call, request.response)
            elif isinstance(request, CallAbandoned):
                self._abandoned(calls.pop(request.stream))

    # ---- a request has arrived

    def _arrived(
        self, connection: Decidable, calls: dict[int, Call], arrived: RequestArrived
    ) -> None:
        method = METHODS[arrived.method]
        call = Call(method, None)
        calls[arrived.stream] = call
        problem = arrived.problem or self._read(call, arrived.message)
        if problem:
            self._unreadable(connection, arrived, call, problem)
            return
        if not arrived.held:
            self._note(call, missed=())
            return
        decide = self._decide(connection, arrived.stream, call)
        if call.facts is not None and self._dispatcher.immediate(method.pre):
            # Nothing to wait for: its headers and its message go out in one write.
            _run_through(decide)
        else:
            call.task = self._tasks.create_task(decide)

    def _read(self, call: Call, message: bytes | None) -> str:
        """Parse a request and find what it is about; what is wrong with it, if anything."""
        try:
            call.request = call.method.request()
            call.request.ParseFromString(message)
            self._find(call)
        except (DecodeError, ValueError) as error:
            return f"{call.method.name} is no {call.method.request.DESCRIPTOR.name}: {error}"
        return ""

    def _unreadable(
        self, connection: Decidable, arrived: RequestArrived, call: Call, problem: str
    ) -> None:
        """Hooks cannot be asked about it. The runtime will have its own opinion of it."""
        log.warning("request cannot be read", method=call.method.name, problem=problem)
        if not arrived.held:
            return
        stage = call.method.pre
        targets = self._dispatcher.subscribed[stage] if stage else ()
        if any(target.policy is Policy.FAIL for target in targets):
            message = f"koord-runtime-proxy: {arrived.method} cannot be read for hooks: {problem}"
            connection.refuse(arrived.stream, UNAVAILABLE, message)
            self._count(call.method, "refused")
        else:
            connection.release(arrived.stream)
            self._count(call.method, "unreadable")

    async def _decide(self, connection: Decidable, stream: int, call: Call) -> None:
        try:
            decision = await self._ask(call)
        except Exception as error:
            # A defect in here must not stop a pod.
            log.error("defect: call goes on unhooked", method=call.method.name, error=repr(error))
            decision = Decision("error")
        if decision.refusal:
            connection.refuse(stream, UNAVAILABLE, decision.refusal)
        else:
            connection.release(stream, decision.message)
        # What was released is written when the loop turns: counted and told after that.
        asyncio.get_running_loop().call_soon(self._tell, call, decision)

    def _tell(self, call: Call, decision: Decision) -> None:
        self._count(call.method, decision.result)
        if decision.verdict is not None:
            _say(call, decision.verdict, changed=decision.message is not None)

    async def _ask(self, call: Call) -> Decision:
        if call.facts is None and call.method.makes is None:
            call.record = await self._adopt(call.method.kind, _id(call))
            self._find(call)
        if call.facts is None or call.method.pre is None:
            log.warning(
                "unknown to the proxy, goes on unhooked", method=call.method.name, id=_id(call)
            )
            return Decision("unknown")
        if self.skip.matches(call.facts):
            self._note(call, missed=())
            return Decision("exempt")
        verdict = await self._dispatcher.ask(call.method.pre, call.facts)
        if verdict.refusal:
            return Decision("refused", refusal=verdict.refusal)
        message = _written(call, verdict)
        self._note(call, missed=verdict.missed)
        return Decision("missed" if verdict.missed else "hooked", message, verdict=verdict)

    def _find(self, call: Call) -> None:
        """What is known of the pod or container that the call is about."""
        request, store = call.request, self._store
        if call.method.name == "RunPodSandbox":
            call.facts = rules.pod_facts(request.config, request.runtime_handler)
            call.record = Record(Kind.POD, "", call.facts)
        elif call.method.name == "CreateContainer":
            pod = store.get(Kind.POD, request.pod_sandbox_id)
            known: Any = pod.facts if pod else rules.pod_facts(request.sandbox_config)
            call.facts = rules.container_facts(request.config, request.sandbox_config, known)
            call.record = Record(Kind.CONTAINER, "", call.facts, request.pod_sandbox_id)
        else:
            call.record = store.get(call.method.kind, _id(call)) or call.record
            if call.record is not None:
                call.facts = _facts_of(call, call.record)

    def _note(self, call: Call, missed: Iterable[Missed]) -> None:
        """Write down what the runtime is about to be asked, before it is."""
        record = call.record
        if record is None or call.facts is None:
            return
        record.note(missed)
        if call.method.makes is not None:
            record.facts = call.facts
            self._store.expect(record)
        elif call.method.pre is not None and not call.method.ends:
            call.before = record.facts
            if record.facts != call.facts or missed:
                record.facts = call.facts
                self._store.put(record)

    # ---- a call has ended

    def _ended(self, call: Call, response: bytes | None) -> None:
        record, method = call.record, call.method
        if record is None:
            return
        facts = record.facts
        if method.makes is not None:
            made = _made(method, response)
            if made:
                self._store.made(record, made)
            else:
                self._store.not_made(record)
            return
        if method.ends:
            if response is not None:
                self._store.drop(method.kind, _id(call))
        elif response is None and call.before is not None and record.facts is call.facts:
            # Unless a later call has written its own facts meanwhile.
            record.facts = call.before
            self._store.put(record)
        if method.post is not None and self._dispatcher.subscribed[method.post]:
            self._tasks.create_task(self._after(method.post, record, facts))

    async def _after(self, stage: Stage, record: Record, facts: Facts) -> None:
        """Hooks that come after change nothing, so nobody waits for them."""
        if self.skip.matches(facts):
            return
        try:
            verdict = await self._dispatcher.ask(stage, deepcopy(facts))
            if verdict.missed and self._store.get(record.kind, record.id) is record:
                record.note(verdict.missed)
                self._store.put(record)
        except Exception as error:
            log.error("defect in a hook that comes after", stage=stage, error=repr(error))

    def _abandoned(self, call: Call) -> None:
        """The client gave up: so do the hooks."""
        if call.task is not None:
            call.task.cancel()
        if call.record is not None and call.method.makes is not None:
            self._store.not_made(call.record)
        self._count(call.method, "abandoned")

    def _count(self, method: Method, result: str) -> None:
        self._metrics.intercepted.labels(method.name, result).inc()


def _say(call: Call, verdict: Verdict, *, changed: bool) -> None:
    say = log.warning if verdict.missed else log.info
    say(
        "unmanaged" if verdict.missed else "hooked",
        method=call.method.name,
        **names_of(verdict.merge.facts),
        changed=", ".join(sorted(map(str, verdict.merge.claims))) if changed else None,
        missed=", ".join(missed.server for missed in verdict.missed) or None,
    )


def _run_through(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError("a coroutine that was not to wait waits")


def _id(call: Call) -> str:
    return str(getattr(call.request, call.method.id_field))


def _facts_of(call: Call, record: Record) -> Facts:
    """The facts hooks are asked with: a copy, since hooks change it."""
    if call.method.name == "UpdateContainerResources":
        return rules.updated_facts(record.facts, call.request)  # type: ignore[arg-type]
    return deepcopy(record.facts)


def _written(call: Call, verdict: Verdict) -> bytes | None:
    """The request with what hooks changed; None if that is nothing."""
    request, facts, claims = call.request, verdict.merge.facts, verdict.merge.claims
    if call.method.name == "RunPodSandbox" and claims:
        rules.write_sandbox(request, facts, claims)  # type: ignore[arg-type]
    elif call.method.name == "CreateContainer" and claims:
        rules.write_container(request, facts, claims)  # type: ignore[arg-type]
    elif call.method.name == "UpdateContainerResources" and verdict.asked:
        before = request.SerializeToString(deterministic=True)
        rules.write_update(request, facts)  # type: ignore[arg-type]
        after: bytes = request.SerializeToString(deterministic=True)
        return None if after == before else after
    else:
        return None
    written: bytes = request.SerializeToString()
    return written


def _made(method: Method, response: bytes | None) -> str:
    """The id of what a call has made; empty if it has not."""
    if response is None or method.makes is None:
        return ""
    made: Message = method.makes()
    try:
        made.ParseFromString(response)
    except DecodeError:
        return ""
    return str(getattr(made, method.id_field))
