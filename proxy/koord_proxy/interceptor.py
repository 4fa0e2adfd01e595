"""The steps of an intercepted call: hook request, hooks, the request sent on, the record.

Order of a held call: read it, find what is known of its pod, ask the hooks, write
what they changed into it, note what is expected, send it on. When it has ended:
keep the record or let it go, and ask the hooks that come after.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

from koord_hooks.protocol import HookRequest
from koord_hooks.stages import Stage
from koord_service.log_limits import LogLimiter
from koord_service.logs import get_log

from koord_proxy.call_traces import CallTraces
from koord_proxy.contract.events import (
    CallAbandoned,
    CallEnded,
    RequestArrived,
    Route,
    SessionEvent,
    Treatment,
)
from koord_proxy.contract.runtime_api import InterceptedRequest, RewrittenRequest, RuntimeApi
from koord_proxy.contract.runtime_client import NotKubernetesError, RuntimeNotFoundError
from koord_proxy.dispatcher import Dispatcher, DispatchResult
from koord_proxy.metrics import Metrics
from koord_proxy.rules.merge import ContainerHookRequest, Field
from koord_proxy.rules.methods import InterceptedMethod
from koord_proxy.rules.records import (
    NO_LIMITS,
    MissedHookCall,
    RecordKind,
    RequestedLimits,
    RuntimeRecord,
    hook_request_with_limits,
    labels_of,
    names_of,
    requested_limits,
)
from koord_proxy.rules.registration import FailurePolicy
from koord_proxy.store import RecordStore

log = get_log("koord_proxy.calls")

UPDATE = "UpdateContainerResources"


class Decidable(Protocol):
    """A connection on which held calls wait for a decision."""

    def release(self, stream: int, message: bytes | None = None) -> None:
        """Send a held request on."""

    def refuse(self, stream: int, message: str) -> None:
        """Answer a held request with an error."""

    def close(self) -> None:
        """End the connection; its calls are over."""


@dataclass(slots=True)
class InterceptedCall:
    """An intercepted call under way.

    ``record`` is that of its pod or container, if it is known; ``requested`` the limits that
    the kubelet asks for; ``before`` the hook request to go back to should an update fail, and
    the limits asked for until then; ``changed`` the fields hooks changed. While calls are traced,
    ``began`` and ``decided`` are in seconds since the epoch, and ``result`` is as counted.
    """

    request: InterceptedRequest
    record: RuntimeRecord | None = None
    hook_request: HookRequest | None = None
    requested: RequestedLimits = NO_LIMITS
    before: tuple[HookRequest, RequestedLimits] | None = None
    changed: str = ""
    began: float = 0.0
    decided: float = 0.0
    result: str = ""
    task: asyncio.Task[None] | None = None

    @property
    def method(self) -> InterceptedMethod:
        """Method to which the request amounts."""
        return self.request.method


class CallDecision(NamedTuple):
    """Decision on a held call: ``message`` goes on in its place (None: as it came).

    ``result`` is the word for the metric; ``refusal``, if set, is what the client gets;
    ``left_out`` are changes that the request has no field for.
    """

    result: str
    message: bytes | None = None
    refusal: str = ""
    verdict: DispatchResult | None = None
    left_out: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True)
class SkipRule:
    """Pods with this label or annotation are not hooked; an empty key matches none."""

    key: str
    value: str

    def matches(self, hook_request: HookRequest) -> bool:
        """True if the pod is exempt from hooks."""
        return bool(self.key) and any(
            known.get(self.key) == self.value for known in labels_of(hook_request)
        )


class Interceptor:
    """Handles the intercepted calls of all connections."""

    def __init__(
        self,
        *,
        api: RuntimeApi,
        store: RecordStore,
        dispatcher: Dispatcher,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        skip: SkipRule,
        adopt: Callable[[RecordKind, str], Awaitable[RuntimeRecord | None]],
        refresh: Callable[[RuntimeRecord], Awaitable[bool]] | None = None,
        met: Callable[[], None] = lambda: None,
        reports_requested: bool = False,
        traces: CallTraces | None = None,
    ) -> None:
        """``adopt`` looks up what is unknown here, and ``met`` is called when it turns out to run.

        ``refresh`` puts the limits that a container has now into its record, and returns whether
        it could. Without it records are believed. With ``reports_requested``, the
        kubelet sees the limits that it requested itself.
        """
        self._api = api
        self._store = store
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._tasks = tasks
        self._adopt = adopt
        self._refresh = refresh
        self._met = met
        self._reports_requested = reports_requested
        self._traces = traces
        # For what any client can cause, as often as it likes.
        self._warnings = LogLimiter(log)
        self.skip = skip

    def route(self, target: str) -> Route:
        """Decide the treatment of a call: it is held only if hooks precede it."""
        call = self._api.call(target)
        tally = self._metrics.tally(self._api.label(target))
        if not call:
            rewrites = self._reports_requested and self._api.rewrites_answer(target)
            return Route(Treatment.RELAY, tally, answer=self._answer if rewrites else None)
        held = any(self._dispatcher.subscribed[stage] for stage in self._api.stages(call))
        return Route(Treatment.HOLD if held else Treatment.WATCH, tally, call)

    def _answer(self, message: bytes) -> bytes | None:
        """The answer that the kubelet gets in place of the runtime's."""
        try:
            return self._api.rewrite_answer(message, self._requested)
        except Exception as error:
            # Whatever is wrong, the runtime's own answer is one.
            self._warnings.warning("answer passed on unread", problem=str(error))
            return None

    def _requested(self, container: str) -> RequestedLimits | None:
        record = self._store.get(RecordKind.CONTAINER, container)
        return None if record is None else record.requested

    def handle(
        self,
        connection: Decidable,
        calls: dict[int, InterceptedCall],
        requests: Iterable[SessionEvent],
    ) -> None:
        """Handle a session's events; ``calls`` are those of its connection, by stream."""
        for request in requests:
            if isinstance(request, RequestArrived):
                self._arrived(connection, calls, request)
            elif isinstance(request, CallEnded):
                call = calls.pop(request.stream, None)
                if call is not None:
                    if self._traces is not None:
                        self._traces.ended(call, request.response)
                    self._ended(call, request.response)
            elif isinstance(request, CallAbandoned):
                self._abandoned(calls.pop(request.stream))

    # ---- a request has arrived

    def _arrived(
        self, connection: Decidable, calls: dict[int, InterceptedCall], arrived: RequestArrived
    ) -> None:
        try:
            call = self._read(arrived)
        except ValueError as error:
            self._unreadable(connection, arrived, str(error))
            return
        if call is not None:
            calls[arrived.stream] = call
        if call is None or not arrived.held or not self._has_pre_hooks(call.method):
            if call is not None:
                self._note(call, missed=())
            if arrived.held:
                connection.release(arrived.stream)
            return
        decide = self._decide(connection, calls, arrived.stream, call)
        immediate = self._dispatcher.immediate(call.method.pre) and not self._is_update(call)
        if call.hook_request is not None and immediate:
            # Nothing to wait for: its headers and its message go out in one write.
            _run_through(decide)
        else:
            call.task = self._tasks.create_task(decide)

    def _read(self, arrived: RequestArrived) -> InterceptedCall | None:
        """Decode a request and find its record; None if it does not concern Kubernetes.

        Raises:
            ValueError: it cannot be decoded; one line that says why.
        """
        if arrived.problem:
            raise ValueError(arrived.problem)
        request = self._api.parse(arrived)
        if request is None:
            return None
        call = InterceptedCall(request)
        if self._traces is not None:
            call.began = time.time()
        self._find(call)
        return call

    def _is_update(self, call: InterceptedCall) -> bool:
        """True if the call sets limits, so that the other limits in force have to be looked up."""
        return self._refresh is not None and call.method.name == UPDATE

    def _has_pre_hooks(self, method: InterceptedMethod) -> bool:
        """True if hooks precede the call."""
        return method.pre is not None and bool(self._dispatcher.subscribed[method.pre])

    def _unreadable(self, connection: Decidable, arrived: RequestArrived, problem: str) -> None:
        """Hooks cannot be called for it; the runtime decides what to do with it."""
        self._warnings.warning("cannot decode the request", method=arrived.method, problem=problem)
        if not arrived.held:
            return
        if self._failing_server(self._api.stages(arrived.method)):
            message = f"koord-runtime-proxy: {arrived.method}: cannot decode the request: {problem}"
            connection.refuse(arrived.stream, message)
            self._count(arrived.method, "refused")
        else:
            connection.release(arrived.stream)
            self._count(arrived.method, "unreadable")

    def _failing_server(self, stages: Iterable[Stage]) -> str:
        """A server with the policy Fail in these stages; empty if there is none."""
        targets = (target for stage in stages for target in self._dispatcher.subscribed[stage])
        return next((target.name for target in targets if target.policy is FailurePolicy.FAIL), "")

    async def _decide(
        self,
        connection: Decidable,
        calls: dict[int, InterceptedCall],
        stream: int,
        call: InterceptedCall,
    ) -> None:
        try:
            decision = await self._ask(call)
        except Exception as error:
            # A defect in here must not stop a pod.
            log.error("defect: call not hooked", method=call.method.name, error=repr(error))
            decision = CallDecision("error")
            self._note_unhooked(call)
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
        # What was released is written when the loop turns: counted and logged after that.
        asyncio.get_running_loop().call_soon(self._report, call, decision)

    def _report(self, call: InterceptedCall, decision: CallDecision) -> None:
        self._count(call.method.name, decision.result)
        if self._traces is not None:
            self._traces.decided(call, decision)
        if decision.verdict is not None:
            _log_verdict(call, decision.verdict)
        if decision.left_out and call.hook_request is not None:
            fields = ", ".join(sorted(map(str, decision.left_out)))
            log.warning(
                "the runtime's API has no field for some changes",
                method=call.method.name,
                fields=fields,
                **names_of(call.hook_request),
            )

    async def _ask(self, call: InterceptedCall) -> CallDecision:
        was_found = call.hook_request is None
        if call.hook_request is None:
            try:
                found = await self._look_up(call)
            except NotKubernetesError:
                return CallDecision("foreign")
            except RuntimeNotFoundError:
                # The runtime will say so.
                return CallDecision("unknown")
            server = (
                "" if found else self._failing_server((call.method.pre,) if call.method.pre else ())
            )
            if server:
                return CallDecision("refused", refusal=_not_looked_up(call, server))
        if call.hook_request is None or call.method.pre is None:
            self._warnings.warning(
                "unknown pod or container, call not hooked",
                method=call.method.name,
                id=call.request.id,
            )
            return CallDecision("unknown")
        if self.skip.matches(call.hook_request):
            self._note(call, missed=())
            return CallDecision("exempt")
        is_known = was_found or await self._look_up_limits(call)
        verdict = await self._dispatcher.ask(call.method.pre, call.hook_request)
        if verdict.refusal:
            return CallDecision("refused", refusal=verdict.refusal)
        sent = RewrittenRequest(None)
        if verdict.asked:
            sent = call.request.rewrite(verdict.merge, complete=is_known)
        message, left_out = sent
        verdict.merge.undo(left_out)
        if message is not None:
            call.changed = ", ".join(sorted(map(str, verdict.merge.claims)))
        self._note(call, missed=verdict.missed)
        result = "missed" if verdict.missed else "hooked"
        return CallDecision(result, message, verdict=verdict, left_out=left_out)

    async def _look_up_limits(self, call: InterceptedCall) -> bool:
        """Have an update laid over the limits in force; whether these are known."""
        if call.record is None or self._refresh is None or not self._is_update(call):
            return True
        is_known = await self._refresh(call.record)
        # Anew in any case: another call may have changed the record meanwhile.
        call.hook_request = _hook_request_of(call.request, call.record)
        return is_known

    def _find(self, call: InterceptedCall, *, looked_up: bool = False) -> None:
        """Find the pod or container of the call in the records.

        No hook request is found where the runtime has to be asked first.
        """
        request, method = call.request, call.method
        if method.makes:
            pod = self._store.get(RecordKind.POD, request.sandbox)
            if request.sandbox and pod is None and not (request.describes_pod or looked_up):
                return
            call.hook_request = request.new_hook_request(pod.hook_request if pod else None)  # type: ignore[arg-type]
            call.requested = requested_limits(call.hook_request)
            call.record = RuntimeRecord(method.kind, "", call.hook_request, request.sandbox)
            return
        call.record = self._store.get(method.kind, request.id) or call.record
        if call.record is not None:
            call.requested = _requested_by(request, call.record)
            call.hook_request = _hook_request_of(request, call.record)

    async def _look_up(self, call: InterceptedCall) -> bool:
        """Look up the pod or container of the call; whether the runtime has it.

        Raises:
            RuntimeNotFoundError: there is none.
            NotKubernetesError: it does not belong to Kubernetes.
        """
        if call.method.makes:
            found = await self._adopt(RecordKind.POD, call.request.sandbox)
        else:
            found = call.record = await self._adopt(call.method.kind, call.request.id)
            if found is not None and call.method.ends:
                # It has stopped: nothing that it went without is to be made good.
                found.missed = []
        self._find(call, looked_up=True)
        return found is not None

    def _note_unhooked(self, call: InterceptedCall) -> None:
        """Record that a defect of ours kept hooks from a call."""
        stage = call.method.pre
        if stage is None or call.before is not None:
            return
        now = time.time()
        self._note(
            call,
            [
                MissedHookCall(stage.value, target.name, "a defect of the proxy", now)
                for target in self._dispatcher.subscribed[stage]
                if target.waits
            ],
        )

    def _note(self, call: InterceptedCall, missed: Iterable[MissedHookCall]) -> None:
        """Record a call before the runtime sees it."""
        record = call.record
        if record is None or call.hook_request is None:
            return
        record.note(missed)
        if call.method.makes:
            record.set_hook_request(call.hook_request, call.requested)
            self._store.expect(record)
        elif call.method.pre is not None and not call.method.ends:
            call.before = record.hook_request, record.last_requested
            record.updates += 1
            if call.before != (call.hook_request, call.requested) or missed:
                record.set_hook_request(call.hook_request, call.requested)
                self._store.put(record)

    # ---- a call has ended

    def _ended(self, call: InterceptedCall, response: bytes | None) -> None:
        record, method = call.record, call.method
        if record is None:
            if response is not None and method.kind is RecordKind.CONTAINER and not method.ends:
                self._met()
            return
        hook_request = record.hook_request
        if call.before is not None:
            record.updates -= 1
        if response is None and call.changed:
            # The runtime's own message cannot say whose values they are.
            log.warning(
                "call failed after hooks changed it",
                method=method.name,
                changed=call.changed,
                **names_of(hook_request),
            )
        if method.makes:
            made = call.request.created_id(response) if response is not None else ""
            if made:
                self._store.made(record, made)
            else:
                self._store.not_made(record)
                if response is not None:
                    # It was made, under an id that cannot be read.
                    self._met()
            return
        if method.ends:
            if response is not None:
                self._store.drop(method.kind, record.id)
        elif (
            response is None
            and call.before is not None
            and record.hook_request is call.hook_request
        ):
            # Unless a later call has written its own hook request meanwhile.
            record.set_hook_request(*call.before)
            self._store.put(record)
        if method.post is not None and self._dispatcher.subscribed[method.post]:
            self._tasks.create_task(self._after(method.post, record, hook_request))

    async def _after(self, stage: Stage, record: RuntimeRecord, hook_request: HookRequest) -> None:
        """Hooks that come after change nothing, so nobody waits for them."""
        if self.skip.matches(hook_request):
            return
        try:
            verdict = await self._dispatcher.ask(stage, deepcopy(hook_request))
            if verdict.missed and self._store.get(record.kind, record.id) is record:
                record.note(verdict.missed)
                self._store.put(record)
        except Exception as error:
            log.error("defect: post hook failed", stage=stage, error=repr(error))

    def _abandoned(self, call: InterceptedCall) -> None:
        """The client gave up, so the hook calls are cancelled."""
        if call.task is not None:
            call.task.cancel()
        if call.record is not None and call.method.makes:
            self._store.not_made(call.record)
        self._count(call.method.name, "abandoned")

    def _count(self, method: str, result: str) -> None:
        self._metrics.intercepted.labels(method, result).inc()


def _not_looked_up(call: InterceptedCall, server: str) -> str:
    name = call.request.sandbox if call.method.makes else call.request.id
    return (
        f"koord-runtime-proxy: {name} is unknown here, and the runtime does not describe it; hook "
        f"server {server} has to be asked (its failure policy is Fail)"
    )


def _log_verdict(call: InterceptedCall, verdict: DispatchResult) -> None:
    say = log.info
    if verdict.missed:
        # One line tells of a server that is away, and its calls and pods are counted.
        say = log.warning if len(verdict.missed) > verdict.expected else log.debug
    say(
        "unmanaged" if verdict.missed else "hooked",
        method=call.method.name,
        **names_of(verdict.merge.hook_request),
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


def _requested_by(request: InterceptedRequest, record: RuntimeRecord) -> RequestedLimits:
    """The limits that the kubelet asks for, those included that it asked for before."""
    if request.method.name != UPDATE:
        return record.last_requested
    return requested_limits(
        request.updated_hook_request(hook_request_with_limits(record.last_requested))
    )


def _hook_request_of(request: InterceptedRequest, record: RuntimeRecord) -> HookRequest:
    """The hook request sent to hooks: a copy, since hooks change it."""
    if request.method.name == UPDATE:
        return request.updated_hook_request(cast("ContainerHookRequest", record.hook_request))
    return deepcopy(record.hook_request)
