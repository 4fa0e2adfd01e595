"""Asking every subscribed hook target about one stage, within the failure contract.

Targets are asked in order, each seeing what the ones before it changed. What
becomes of each is counted and, unless all is well, logged and noted in the
record of the pod. A target that is away or silent costs one deadline; then its
breaker opens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from koord_hooks.protocol import HookRequest, HookResponse
from koord_hooks.stages import POST_STAGES, Stage
from koord_service.breaker import Breaker
from koord_service.logs import get_log

from koord_proxy.hook_targets import HookError, HookTarget, NotSubscribedError
from koord_proxy.metrics import Metrics
from koord_proxy.rules.merge import Merge
from koord_proxy.rules.records import MissedHookCall, names_of
from koord_proxy.rules.registration import FailurePolicy

log = get_log("koord_proxy.hooks")

REMIND_SECONDS = 600.0
"""Between two lines about a server that stays away."""
MOST_PODS = 10_000
"""Number of pods of an outage that are counted each."""
PROBE_SECONDS = 0.25
"""Interval at which due probes are looked for."""


@dataclass(slots=True)
class DispatchResult:
    """Combined result of all hook servers of a stage.

    ``refusal`` is set if the call must fail; ``missed`` are the hooks that were
    due and did not happen. Of these ``expected`` were to be missed: their server is known to be
    away, which was logged when it began.
    """

    merge: Merge
    refusal: str = ""
    missed: list[MissedHookCall] = field(default_factory=list)
    expected: int = 0
    asked: int = 0


@dataclass(slots=True)
class _Outage:
    """A server that is away: since when (monotonic), and what it missed since it was logged."""

    since: float
    logged_at: float
    calls: int = 0
    pods: set[str] = field(default_factory=set)


class Dispatcher:
    """The targets in use, in the order they are asked."""

    def __init__(self, metrics: Metrics, tasks: asyncio.TaskGroup) -> None:
        self._metrics = metrics
        self._tasks = tasks
        self._targets: tuple[HookTarget, ...] = ()
        self.subscribed: dict[Stage, tuple[HookTarget, ...]] = {}
        self._outages: dict[str, _Outage] = {}
        self._set(())

    @property
    def targets(self) -> tuple[HookTarget, ...]:
        """All targets, in order."""
        return self._targets

    def replace(self, targets: Iterable[HookTarget]) -> None:
        """Use these targets from now on; calls under way end with the ones they began with."""
        before = self._targets
        self._set(tuple(targets))
        for target in before:
            if target not in self._targets:
                self._tasks.create_task(self._retire(target))

    def _set(self, targets: tuple[HookTarget, ...]) -> None:
        self._targets = targets
        self.subscribed = {
            stage: tuple(target for target in targets if stage in target.stages) for stage in Stage
        }

    async def _retire(self, target: HookTarget) -> None:
        await asyncio.sleep(target.timeout or 0)
        await target.close()

    def breakers(self) -> dict[str, int]:
        """Breaker states by target, as the metric shows them."""
        return {target.name: target.breaker.state.value for target in self._targets}

    def immediate(self, stage: Stage | None) -> bool:
        """True if all hooks of a stage run in this process, so that no answer is waited for."""
        return stage is not None and not any(target.waits for target in self.subscribed[stage])

    async def ask(
        self, stage: Stage, hook_request: HookRequest, only: Collection[str] | None = None
    ) -> DispatchResult:
        """Ask every target that is subscribed to the stage; of these ``only`` some, by name."""
        verdict = DispatchResult(Merge(hook_request))
        for target in self.subscribed[stage]:
            if only is not None and target.name not in only:
                continue
            await self._ask_one(target, stage, verdict)
            if verdict.refusal:
                break
        for conflict in verdict.merge.conflicts:
            log.warning(
                "hook servers conflict, keeping the first value",
                stage=stage,
                field=str(conflict.field),
                kept=conflict.kept,
                overruled=conflict.overruled,
                **names_of(hook_request),
            )
        return verdict

    async def _ask_one(self, target: HookTarget, stage: Stage, verdict: DispatchResult) -> None:
        breaker = target.breaker
        ticket = breaker.admit()
        if not ticket:
            self._missed(target, stage, verdict, HookError("skipped", "unreachable", reached=False))
            return
        started = time.perf_counter()
        try:
            response = await self._within_deadline(target, stage, verdict.merge.hook_request)
        except NotSubscribedError:
            self._answered(target)
            self._count(target, stage, "not_subscribed")
            return
        except HookError as error:
            self._learn(target, error)
            if error.partial is not None:
                verdict.merge.add(target.name, error.partial)
                verdict.asked += 1
            self._missed(target, stage, verdict, error)
            return
        except asyncio.CancelledError:
            self._count(target, stage, "cancelled")
            raise
        finally:
            # Whatever became of the call: a ticket that stayed out would bar the server for good.
            # After an answer or a failure this changes nothing.
            breaker.withdrawn(ticket)
        self._answered(target)
        self._metrics.hook_seconds.labels(target.name, stage.value).observe(
            time.perf_counter() - started
        )
        changed = verdict.merge.add(target.name, response)
        verdict.asked += 1
        self._count(target, stage, "applied" if changed else "unchanged")

    async def _within_deadline(
        self, target: HookTarget, stage: Stage, hook_request: HookRequest
    ) -> HookResponse:
        if target.timeout is None:
            return await target.ask(stage, hook_request)
        answer = self._tasks.create_task(_collected(target, stage, hook_request))
        try:
            done, _ = await asyncio.wait((answer,), timeout=target.timeout)
        except asyncio.CancelledError:
            answer.cancel()
            raise
        if not done:
            self._tasks.create_task(self._late(target, stage, answer))
            raise HookError("timeout", f"no answer within {target.timeout:g} s", reached=False)
        if answer.cancelled():
            # Its connections were closed, since it is not registered any more.
            raise HookError("unavailable", "no longer registered", reached=False)
        result = answer.result()
        if isinstance(result, Exception):
            raise result
        return result

    async def _late(
        self, target: HookTarget, stage: Stage, answer: asyncio.Task[HookResponse | Exception]
    ) -> None:
        """An answer after its deadline is dropped and counted; it shows that the server lives."""
        result = await answer
        reached = not isinstance(result, Exception) or isinstance(result, NotSubscribedError)
        if not (reached or (isinstance(result, HookError) and result.reached)):
            return
        self._count(target, stage, "late")
        log.warning("late hook answer dropped", server=target.name, stage=stage)
        target.breaker.probe_answered()

    def _learn(self, target: HookTarget, error: HookError) -> None:
        now = time.monotonic()
        if error.reached:
            self._answered(target)
        elif target.breaker.failed(now) and target.name not in self._outages:
            self._outages[target.name] = _Outage(now, now)
            log.warning(
                "hook server unavailable, skipping it until it answers",
                server=target.name,
                error=str(error),
            )

    def _answered(self, target: HookTarget) -> None:
        target.breaker.answered()
        outage = self._outages.pop(target.name, None)
        if outage is not None:
            _log_outage(log.info, "hook server has answered again", target.name, outage)

    def _count_missed(self, target: HookTarget, hook_request: HookRequest) -> bool:
        """Count a missed call for an outage; return True if the outage has been logged."""
        outage = self._outages.get(target.name)
        if outage is None:
            return False
        outage.calls += 1
        if len(outage.pods) < MOST_PODS:
            outage.pods.add(hook_request.pod_meta.uid or hook_request.pod_meta.name)
        # The first call has a log line of its own.
        return outage.calls > 1

    def _remind(self, now: float) -> None:
        """Say of servers that stay away how many calls and pods go without them."""
        names = {target.name for target in self._targets}
        for name, outage in list(self._outages.items()):
            if name not in names:
                del self._outages[name]
            elif outage.calls and now - outage.logged_at >= REMIND_SECONDS:
                outage.logged_at = now
                _log_outage(log.warning, "hook server still unavailable", name, outage)

    def _missed(
        self, target: HookTarget, stage: Stage, verdict: DispatchResult, error: HookError
    ) -> None:
        self._count(target, stage, error.outcome)
        # After a call there is nothing left to refuse.
        refused = target.policy is FailurePolicy.FAIL and stage not in POST_STAGES
        known = not error.reached and self._count_missed(target, verdict.merge.hook_request)
        say = log.debug if known or error.outcome == "skipped" else log.warning
        say(
            "hook not applied",
            server=target.name,
            stage=stage,
            outcome=error.outcome,
            error=str(error),
            policy=target.policy.value,
            **names_of(verdict.merge.hook_request),
        )
        if refused:
            verdict.refusal = (
                f"koord-runtime-proxy: hook server {target.name} at {stage.value}: {error} "
                "(its failure policy is Fail)"
            )
        else:
            verdict.expected += known
            verdict.missed.append(MissedHookCall(stage.value, target.name, str(error), time.time()))

    def _count(self, target: HookTarget, stage: Stage, outcome: str) -> None:
        self._metrics.hook_outcomes.labels(target.name, stage.value, outcome).inc()

    async def probe_forever(self) -> None:
        """Find out when servers that were given up answer again."""
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            now = time.monotonic()
            self._remind(now)
            due = [target for target in self._targets if target.breaker.probe_due(now)]
            # Together: one that hangs must not keep the others waiting.
            await asyncio.gather(*(self._probe(target, target.breaker) for target in due))

    def probe_now(self, names: Collection[str]) -> None:
        """Find out at once about servers that registered anew."""
        now = time.monotonic()
        for target in self._targets:
            if target.name in names and target.breaker.hurry(now):
                self._tasks.create_task(self._probe(target, target.breaker))

    async def _probe(self, target: HookTarget, breaker: Breaker) -> None:
        try:
            answers = await target.probe()
        except Exception as error:
            # Of one target, and the others are to be probed all the same.
            log.error("defect: probe failed", server=target.name, error=repr(error))
            answers = False
        if not answers:
            breaker.probe_failed(time.monotonic())
        elif breaker.probe_answered():
            log.info("hook server available again", server=target.name)


def _log_outage(say: Callable[..., None], event: str, name: str, outage: _Outage) -> None:
    seconds = round(time.monotonic() - outage.since)
    say(event, server=name, seconds=seconds, calls=outage.calls, pods=len(outage.pods))


async def _collected(
    target: HookTarget, stage: Stage, hook_request: HookRequest
) -> HookResponse | Exception:
    """The answer or what went wrong, as a value: nobody may be left to raise it to."""
    try:
        return await target.ask(stage, hook_request)
    except Exception as error:
        return error
