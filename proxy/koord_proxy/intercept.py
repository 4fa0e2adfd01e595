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
from typing import Any, NamedTuple, Protocol, cast

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
from koord_proxy.language import Asked, Language
from koord_proxy.metrics import Metrics
from koord_proxy.rules.merge import ContainerFacts, Facts, Field
from koord_proxy.rules.methods import Method
from koord_proxy.rules.records import Kind, Missed, Record, labels_of, names_of
from koord_proxy.rules.registration import Policy
from koord_proxy.runtime import NotKubernetesError
from koord_proxy.store import Store

log = get_log("koord_proxy.calls")


class Decidable(Protocol):
    """Where the calls come from and decisions go: a connection."""

    def release(self, stream: int, message: bytes | None = None) -> None:
        """Send a held request on."""

    def refuse(self, stream: int, message: str) -> None:
        """Answer a held request with an error."""

    def close(self) -> None:
        """End the connection; its calls are over."""


@dataclass(slots=True)
class Call:
    """An intercepted call under way.

    ``record`` is that of its pod or container, if it is known; ``before`` the
    facts to go back to should an update fail; ``changed`` the fields hooks changed.
    """

    asked: Asked
    record: Record | None = None
    facts: Facts | None = None
    before: Facts | None = None
    changed: str = ""
    task: asyncio.Task[None] | None = None

    @property
    def method(self) -> Method:
        """What the request amounts to."""
        return self.asked.method


class Decision(NamedTuple):
    """What becomes of a held call: ``message`` goes on in its place (None: as it came).

    ``result`` is the word for the metric; ``refusal``, if set, is what the client gets;
    ``left_out`` are changes that the request has no field for.
    """

    result: str
    message: bytes | None = None
    refusal: str = ""
    verdict: Verdict | None = None
    left_out: tuple[Field, ...] = ()


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
        language: Language,
        store: Store,
        dispatcher: Dispatcher,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        skip: SkipRule,
        adopt: Callable[[Kind, str], Awaitable[Record | None]],
    ) -> None:
        self._language = language
        self._store = store
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._tasks = tasks
        self._adopt = adopt
        self.skip = skip

    def route(self, target: str) -> Route:
        """How a call is treated: held only where somebody wants to be asked first."""
        call = self._language.call(target)
        tally = self._metrics.tally(self._language.label(target))
        if not call:
            return Route(Treatment.RELAY, tally)
        held = any(self._dispatcher.subscribed[stage] for stage in self._language.stages(call))
        return Route(Treatment.HOLD if held else Treatment.WATCH, tally, call)

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
        try:
            call = self._read(arrived)
        except ValueError as error:
            self._unreadable(connection, arrived, str(error))
            return
        if call is not None:
            calls[arrived.stream] = call
        if call is None or not arrived.held or not self._wanted(call.method):
            if call is not None:
                self._note(call, missed=())
            if arrived.held:
                connection.release(arrived.stream)
            return
        decide = self._decide(connection, calls, arrived.stream, call)
        if call.facts is not None and self._dispatcher.immediate(call.method.pre):
            # Nothing to wait for: its headers and its message go out in one write.
            _run_through(decide)
        else:
            call.task = self._tasks.create_task(decide)

    def _read(self, arrived: RequestArrived) -> Call | None:
        """Read a request and find what it is about; None if that is nothing of Kubernetes'.

        Raises:
            ValueError: it cannot be read; one line that says why.
        """
        if arrived.problem:
            raise ValueError(arrived.problem)
        asked = self._language.read(arrived)
        if asked is None:
            return None
        call = Call(asked)
        self._find(call)
        return call

    def _wanted(self, method: Method) -> bool:
        """Whether somebody wants to be asked first."""
        return method.pre is not None and bool(self._dispatcher.subscribed[method.pre])

    def _unreadable(self, connection: Decidable, arrived: RequestArrived, problem: str) -> None:
        """Hooks cannot be asked about it. The runtime will have its own opinion of it."""
        log.warning("request cannot be read", method=arrived.method, problem=problem)
        if not arrived.held:
            return
        stages = self._language.stages(arrived.method)
        targets = [target for stage in stages for target in self._dispatcher.subscribed[stage]]
        if any(target.policy is Policy.FAIL for target in targets):
            message = f"koord-runtime-proxy: {arrived.method} cannot be read for hooks: {problem}"
            connection.refuse(arrived.stream, message)
            self._count(arrived.method, "refused")
        else:
            connection.release(arrived.stream)
            self._count(arrived.method, "unreadable")

    async def _decide(
        self, connection: Decidable, calls: dict[int, Call], stream: int, call: Call
    ) -> None:
        try:
            decision = await self._ask(call)
        except Exception as error:
            # A defect in here must not stop a pod.
            log.error("defect: call goes on unhooked", method=call.method.name, error=repr(error))
            decision = Decision("error")
        try:
            if decision.refusal:
                # Over for us: nothing of it comes back.
                calls.pop(stream, None)
                connection.refuse(stream, decision.refusal)
            else:
                connection.release(stream, decision.message)
        except Exception as error:
            # It must not cost more than this connection.
            log.error("defect: connection closed", method=call.method.name, error=repr(error))
            connection.close()
        # What was released is written when the loop turns: counted and told after that.
        asyncio.get_running_loop().call_soon(self._tell, call, decision)

    def _tell(self, call: Call, decision: Decision) -> None:
        self._count(call.method.name, decision.result)
        if decision.verdict is not None:
            _say(call, decision.verdict)
        if decision.left_out and call.facts is not None:
            fields = ", ".join(sorted(map(str, decision.left_out)))
            log.warning(
                "the runtime's API has no field for what hooks want",
                method=call.method.name,
                fields=fields,
                **names_of(call.facts),
            )

    async def _ask(self, call: Call) -> Decision:
        if call.facts is None:
            try:
                await self._look_up(call)
            except NotKubernetesError:
                return Decision("foreign")
        if call.facts is None or call.method.pre is None:
            log.warning(
                "unknown to the proxy, goes on unhooked", method=call.method.name, id=call.asked.id
            )
            return Decision("unknown")
        if self.skip.matches(call.facts):
            self._note(call, missed=())
            return Decision("exempt")
        verdict = await self._dispatcher.ask(call.method.pre, call.facts)
        if verdict.refusal:
            return Decision("refused", refusal=verdict.refusal)
        message, left_out = call.asked.written(verdict.merge) if verdict.asked else (None, ())
        verdict.merge.undo(left_out)
        if message is not None:
            call.changed = ", ".join(sorted(map(str, verdict.merge.claims)))
        self._note(call, missed=verdict.missed)
        result = "missed" if verdict.missed else "hooked"
        return Decision(result, message, verdict=verdict, left_out=left_out)

    def _find(self, call: Call, *, looked_up: bool = False) -> None:
        """What is known of the pod or container that the call is about.

        No facts are found where the runtime has to be asked first.
        """
        asked, method = call.asked, call.method
        if method.makes:
            pod = self._store.get(Kind.POD, asked.sandbox)
            if asked.sandbox and pod is None and not (asked.tells_pod or looked_up):
                return
            call.facts = asked.made(pod.facts if pod else None)  # type: ignore[arg-type]
            call.record = Record(method.kind, "", call.facts, asked.sandbox)
            return
        call.record = self._store.get(method.kind, asked.id) or call.record
        if call.record is not None:
            call.facts = _facts_of(asked, call.record)

    async def _look_up(self, call: Call) -> None:
        """Ask the runtime about the pod or container that the call is about.

        Raises:
            NotKubernetesError: it is none.
        """
        if call.method.makes:
            await self._adopt(Kind.POD, call.asked.sandbox)
        else:
            call.record = await self._adopt(call.method.kind, call.asked.id)
        self._find(call, looked_up=True)

    def _note(self, call: Call, missed: Iterable[Missed]) -> None:
        """Write down what the runtime is about to be asked, before it is."""
        record = call.record
        if record is None or call.facts is None:
            return
        record.note(missed)
        if call.method.makes:
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
        if response is None and call.changed:
            # The runtime's own message cannot say whose values they are.
            log.warning(
                "failed, with values of hooks in it",
                method=method.name,
                changed=call.changed,
                **names_of(facts),
            )
        if method.makes:
            made = call.asked.made_id(response) if response is not None else ""
            if made:
                self._store.made(record, made)
            else:
                self._store.not_made(record)
            return
        if method.ends:
            if response is not None:
                self._store.drop(method.kind, record.id)
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
        if call.record is not None and call.method.makes:
            self._store.not_made(call.record)
        self._count(call.method.name, "abandoned")

    def _count(self, method: str, result: str) -> None:
        self._metrics.intercepted.labels(method, result).inc()


def _say(call: Call, verdict: Verdict) -> None:
    say = log.warning if verdict.missed else log.info
    say(
        "unmanaged" if verdict.missed else "hooked",
        method=call.method.name,
        **names_of(verdict.merge.facts),
        changed=call.changed or None,
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


def _facts_of(asked: Asked, record: Record) -> Facts:
    """The facts hooks are asked with: a copy, since hooks change it."""
    if asked.method.name == "UpdateContainerResources":
        return asked.updated(cast("ContainerFacts", record.facts))
    return deepcopy(record.facts)
