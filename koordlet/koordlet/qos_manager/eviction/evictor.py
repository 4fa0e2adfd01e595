"""Evicts pods: takes a round's claims, carries them out, and reports the results.

``consider`` only decides, and hands on; ``run`` carries out, so that no round waits for an API
server or a runtime. Both belong to one event loop; ``evicting`` may be asked by any thread.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from koord_kube.core.events import reference
from koord_kube.core.evictions import EvictionOutcome, EvictionResult
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.resources import PODS
from koord_service.error_text import describe_error
from koord_service.logs import get_log

from koordlet.qos_manager.core.decision_log import EVICTED
from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    PodNotice,
    PodView,
    StrategyMode,
    StrategyView,
    Term,
)
from koordlet.qos_manager.eviction.api_eviction import FORCED_GRACE
from koordlet.qos_manager.eviction.metrics import EvictionCounts
from koordlet.qos_manager.eviction.policy import events
from koordlet.qos_manager.eviction.policy.account import (
    EvictionAccount,
    EvictionLimits,
    OverduePod,
    grace_seconds,
)
from koordlet.qos_manager.eviction.policy.backend import EvictionBackend
from koordlet.qos_manager.eviction.policy.effect import PAUSE_SECONDS, EvictionEffect
from koordlet.qos_manager.eviction.policy.guard import refusal
from koordlet.qos_manager.eviction.policy.selection import (
    Claimed,
    Decided,
    Eviction,
    EvictionSelection,
    select_evictions,
)

_log = get_log("koordlet.evictor")

_MOST_RECENT = 64
_SUCCEEDED = (EvictionResult.EVICTED, EvictionResult.GONE)


@dataclass(frozen=True, slots=True)
class EvictionAttempt:
    """One eviction, for people; ``at`` is seconds since the epoch.

    ``end`` is ``None`` while it is under way.
    """

    at: float
    pod: str
    uid: str
    strategy: str
    rule: str
    resource: str
    end: EvictionResult | None = None
    reason: str = ""


class Evictor:
    """Evicts until cancelled.

    ``why_not`` says why no pod is evicted: then ``backend`` is not used, and what would be done is
    decided and logged, but not done. ``own`` are the names of koordlet's own pod. ``recorder`` is
    ``None`` without a cluster.
    """

    def __init__(
        self,
        backend: EvictionBackend | None,
        limits: EvictionLimits,
        recorder: EventRecorder | None,
        *,
        why_not: str = "",
        own: frozenset[str] = frozenset(),
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend = None if why_not else backend
        self.why_not = why_not
        self._own = own
        self._now = now
        self._monotonic = monotonic
        self._account = EvictionAccount(limits, monotonic(), pretended=self._backend is None)
        self._shadow = EvictionAccount(limits, monotonic(), pretended=True)
        self._effect = EvictionEffect()
        self._recorder = recorder
        self._waiting: asyncio.Queue[tuple[Eviction, EvictionAttempt]] = asyncio.Queue()
        self._news: list[Decided] = []
        self._recent: deque[EvictionAttempt] = deque(maxlen=_MOST_RECENT)
        self._evicting: frozenset[str] = frozenset()
        self.counts = EvictionCounts(recorder.counts if recorder else None)

    @property
    def backend_name(self) -> str:
        """The name of the eviction backend; "" without one."""
        return self._backend.name if self._backend is not None else ""

    def evicting(self) -> frozenset[str]:
        """The UIDs of pods that are on their way out."""
        return self._evicting

    def recent(self) -> tuple[EvictionAttempt, ...]:
        """The last evictions, oldest first."""
        return tuple(self._recent)

    def consider(
        self,
        view: StrategyView,
        claims: Sequence[tuple[str, StrategyMode, EvictionClaim]],
        notices: Sequence[tuple[str, StrategyMode, PodNotice]],
    ) -> Sequence[tuple[str, StrategyMode, Decision]]:
        """Take a round's claims and notices; return the decisions on them and on earlier ones."""
        for late in self._account.observe(view):
            self._log_overdue(late)
        self._shadow.observe(view)
        self._compare(view, claims)
        done = self._choose(
            self._account, view, [claim for claim in claims if claim[1] is StrategyMode.ON]
        )
        for eviction in done.evictions:
            self._begin(eviction)
        self._log_warnings(done, self._account, view.steady)
        shown = self._choose(
            self._shadow,
            view,
            [claim for claim in claims if claim[1] is StrategyMode.SHADOW],
            {eviction.pod.uid: eviction.frees for eviction in done.evictions},
        )
        for eviction in shown.evictions:
            self._log_eviction("would evict", eviction, reason="strategy in shadow mode")
        for warned in shown.warned:
            self._shadow.warn(warned.pod.uid, view.steady)
        self._record_events(
            events.of_notice(name, notice)
            for name, mode, notice in notices
            if mode is StrategyMode.ON and (self._backend is not None or not notice.of_eviction)
        )
        self._evicting = self._account.going
        news, self._news = self._news, []
        return (*news, *done.decisions, *shown.decisions)

    async def run(self) -> None:
        """Carry out what was chosen, and write Events, until cancelled."""
        way = self._backend
        try:
            async with asyncio.TaskGroup() as group:
                if self._recorder is not None:
                    group.create_task(self._recorder.run())
                while True:
                    # As many at once as the minute's budget allows; without a backend none comes.
                    eviction, attempt = await self._waiting.get()
                    if way is not None:
                        group.create_task(self._carry_out(way, eviction, attempt))
        finally:
            if way is not None:
                await way.close()

    def _compare(
        self, view: StrategyView, claims: Sequence[tuple[str, StrategyMode, EvictionClaim]]
    ) -> None:
        """See what earlier evictions have lowered."""
        needs = {(name, claim.rule, claim.resource): claim.need for name, _, claim in claims}
        for strategy, rule, resource in self._effect.observe(
            needs, self._account.expected, view.steady
        ):
            reason = f"the last evictions did not lower the need; none for {PAUSE_SECONDS:g} s"
            _log.warning(
                "evictions in vain", strategy=strategy, rule=rule, resource=resource, reason=reason
            )

    def _choose(
        self,
        account: EvictionAccount,
        view: StrategyView,
        claims: Sequence[Claimed],
        gone: Mapping[str, Mapping[tuple[str, str, str], float]] | None = None,
    ) -> EvictionSelection:
        """Choose and book; ``gone`` counts as going too."""
        if not claims:
            return EvictionSelection()
        room = account.room(view.steady)
        room = replace(
            room,
            going={**self._account.expected, **room.going, **(gone or {})},
            in_vain=self._effect.paused(view.steady),
        )
        shown = account is self._shadow or self._backend is None
        choice = select_evictions(claims, room, self._refusal, only_shown=shown)
        for eviction in choice.evictions:
            account.book(
                eviction.pod,
                eviction.claim.resource,
                eviction.frees,
                _grace(eviction),
                view.steady,
                stays=self._backend is not None and self._backend.pod_stays,
            )
            if not shown:
                reason = eviction.strategy, eviction.claim.rule, eviction.claim.resource
                self._effect.book(
                    reason, eviction.claim.need, eviction.pod.uid, eviction.frees.get(reason, 0.0)
                )
        return choice

    def _refusal(self, pod: PodView, claim: EvictionClaim) -> str:
        return refusal(pod, claim, self._own)

    def _begin(self, eviction: Eviction) -> None:
        """Carry out an eviction, or only report it."""
        if self._backend is None:
            self._log_eviction("would evict", eviction, reason=self.why_not)
            return
        attempt = EvictionAttempt(
            self._now(),
            eviction.pod.name,
            eviction.pod.uid,
            eviction.strategy,
            eviction.claim.rule,
            eviction.claim.resource,
        )
        self._recent.append(attempt)
        self._waiting.put_nowait((eviction, attempt))

    async def _carry_out(
        self, backend: EvictionBackend, eviction: Eviction, attempt: EvictionAttempt
    ) -> None:
        try:
            outcome = await backend.evict(
                eviction.pod.record, grace_seconds(eviction.pod), forced=eviction.claim.forced
            )
        except Exception as error:
            # A defect of koordlet: only this eviction fails.
            outcome = EvictionOutcome(EvictionResult.UNKNOWN, describe_error(error))
        self._ended(eviction, outcome)
        if attempt in self._recent:
            place = self._recent.index(attempt)
            self._recent[place] = replace(attempt, end=outcome.end, reason=outcome.reason)

    def _ended(self, eviction: Eviction, outcome: EvictionOutcome) -> None:
        """Book, count and report the result of an eviction."""
        uid, now, pod = eviction.pod.uid, self._monotonic(), eviction.pod.record.pod
        self.counts.ended(outcome.end, eviction.claim.rule, pod.namespace, pod.name)
        if outcome.end in _SUCCEEDED:
            self._account.accepted(uid, now)
        else:
            self._effect.refused(uid)
            self._account.refused(
                uid,
                outcome.reason,
                now,
                after=outcome.again_after,
                happened=outcome.disrupted or outcome.end is EvictionResult.UNKNOWN,
            )
        self._evicting = self._account.going
        if outcome.end is EvictionResult.GONE:
            self._log_eviction("gone before it was evicted", eviction)
            return
        if outcome.end is EvictionResult.EVICTED:
            self._log_eviction("evicted", eviction, by=self.backend_name)
            text = f"evicted by {self.backend_name}: {eviction.claim.decision.outcome}"
            said = replace(
                eviction.decision, outcome=f"{text} ({eviction.claim.rule})", aspect=EVICTED
            )
            self._news.append((eviction.strategy, eviction.mode, said))
        else:
            self._log_eviction("not evicted", eviction, reason=outcome.reason)
        self._record_events([events.of_outcome(eviction, outcome, self.backend_name)])

    def _log_overdue(self, late: OverduePod) -> None:
        pod, strategy, seconds, attempts = late
        if not attempts:
            # It ends for a reason that is not ours.
            return
        self.counts.outcomes["late"] += 1
        _log.warning(
            "pod still terminating", pod=pod.name, seconds=round(seconds), evictions=attempts
        )
        text = "has not gone since it was evicted; nothing is expected of it any more"
        given = (Term("since", seconds, "s"), Term("evictions", attempts))
        decision = Decision(text, given=given, pod=pod.name, aspect="eviction")
        self._news.append((strategy, StrategyMode.ON, decision))
        message = f"{text} ({seconds:.0f} s, evicted {attempts} times)"
        self._record_events([events.PodEvent(pod.record.pod, events.STAYS, message)])

    def _log_warnings(
        self, choice: EvictionSelection, account: EvictionAccount, now: float
    ) -> None:
        for warned in choice.warned:
            if account.warn(warned.pod.uid, now) and self._backend is not None:
                fields = {"pod": warned.pod.name, "strategy": warned.strategy}
                _log.info("to be evicted soon", **fields, seconds=warned.seconds)
                self._record_events([events.of_warned(warned)])

    def _log_eviction(self, message: str, eviction: Eviction, **fields: object) -> None:
        log = _log.warning if message == "not evicted" else _log.info
        log(
            message,
            pod=eviction.pod.name,
            strategy=eviction.strategy,
            rule=eviction.claim.rule,
            **fields,
            why=str(eviction.decision),
        )

    def _record_events(self, pod_events: Iterable[events.PodEvent]) -> None:
        for pod_event in pod_events:
            if self._recorder is not None:
                record_event(self._recorder, pod_event)


def record_event(recorder: EventRecorder, event: events.PodEvent) -> None:
    """Have an Event written soon; those of a pod and a reason are equal whatever their numbers."""
    about = reference(PODS, event.pod.name, event.pod.namespace, event.pod.uid)
    recorder.record(about, event.reason, event.message, warning=event.warning, is_numbered=True)


def _grace(eviction: Eviction) -> float:
    """The seconds that the pod has to end in."""
    return float(FORCED_GRACE) if eviction.claim.forced else grace_seconds(eviction.pod)
