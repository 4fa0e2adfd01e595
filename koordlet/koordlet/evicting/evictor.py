"""Evicts: takes what a round claims, has it carried out, and tells what became of it.

``consider`` only decides, and hands on; ``run`` carries out, so that no round waits for an API
server or a runtime. Both belong to one event loop; ``evicting`` may be asked by any thread.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from koord_kube.api import Api
from koord_service.logs import get_log

from koordlet.cluster import ClusterSide
from koordlet.config import Settings, node_name
from koordlet.deciding.contract import Claim, Decision, Given, Mode, Notice, PodView, View
from koordlet.deciding.decisions import EVICTED
from koordlet.evicting import events
from koordlet.evicting.account import Account, Late, Limits, grace_seconds
from koordlet.evicting.announcing import Announcer
from koordlet.evicting.api_eviction import FORCED_GRACE, ByApi
from koordlet.evicting.choosing import Choice, Claimed, Decided, Eviction, choose
from koordlet.evicting.guard import own_names, refusal
from koordlet.evicting.metrics import EvictionCounts
from koordlet.evicting.stopping import ByStop
from koordlet.evicting.ways import End, Outcome, Way
from koordlet.telling import reason_of

_log = get_log("koordlet.evictor")

_MOST_RECENT = 64
_GOES = (End.EVICTED, End.GONE)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One eviction, for people; ``at`` is seconds since the epoch.

    ``end`` is ``None`` while it is under way.
    """

    at: float
    pod: str
    uid: str
    strategy: str
    rule: str
    resource: str
    end: End | None = None
    reason: str = ""


class Evictor:
    """Evicts until cancelled.

    ``why_not`` says why nobody is to be evicted, or how it could be: then ``way`` is not used,
    what would be done is decided and told, and nothing is done. ``own`` is what koordlet's own
    pod is called.
    """

    def __init__(
        self,
        way: Way | None,
        limits: Limits,
        announcer: Announcer,
        *,
        why_not: str = "",
        own: frozenset[str] = frozenset(),
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._way = None if why_not else way
        self.why_not = why_not
        self._own = own
        self._now = now
        self._monotonic = monotonic
        self._account = Account(limits, monotonic(), pretended=self._way is None)
        self._shadow = Account(limits, monotonic(), pretended=True)
        self._announcer = announcer
        self._waiting: asyncio.Queue[tuple[Eviction, Attempt]] = asyncio.Queue()
        self._news: list[Decided] = []
        self._recent: deque[Attempt] = deque(maxlen=_MOST_RECENT)
        self._evicting: frozenset[str] = frozenset()
        self.counts = EvictionCounts(announcer.counts)

    @property
    def way(self) -> str:
        """How pods are evicted; "" where none are."""
        return self._way.name if self._way is not None else ""

    def evicting(self) -> frozenset[str]:
        """The UIDs of pods that are on their way out."""
        return self._evicting

    def recent(self) -> tuple[Attempt, ...]:
        """The last evictions, oldest first."""
        return tuple(self._recent)

    def consider(
        self,
        view: View,
        claims: Sequence[tuple[str, Mode, Claim]],
        notices: Sequence[tuple[str, Mode, Notice]],
    ) -> Sequence[tuple[str, Mode, Decision]]:
        """Take a round's claims and notices; what was decided about them, and news of before."""
        for late in self._account.look(view):
            self._tell_late(late)
        self._shadow.look(view)
        done = self._choose(self._account, view, [one for one in claims if one[1] is Mode.ON])
        for eviction in done.evictions:
            self._begin(eviction)
        self._tell_warned(done, self._account, view.steady)
        shown = self._choose(
            self._shadow,
            view,
            [one for one in claims if one[1] is Mode.SHADOW],
            {one.pod.uid: one.frees for one in done.evictions},
        )
        for eviction in shown.evictions:
            self._log_eviction("would evict", eviction, reason="strategy in shadow mode")
        for warned in shown.warned:
            self._shadow.warn(warned.pod.uid, view.steady)
        self._say(
            events.of_notice(name, one)
            for name, mode, one in notices
            if mode is Mode.ON and (self._way is not None or not one.of_eviction)
        )
        self._evicting = self._account.going
        news, self._news = self._news, []
        return (*news, *done.decisions, *shown.decisions)

    async def run(self) -> None:
        """Carry out what was chosen, and write Events, until cancelled."""
        way = self._way
        if way is None:
            await self._announcer.run()
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._announcer.run())
                while True:
                    # As many at once as the minute's budget allows.
                    eviction, attempt = await self._waiting.get()
                    group.create_task(self._carry_out(way, eviction, attempt))
        finally:
            await way.close()

    def _choose(
        self,
        account: Account,
        view: View,
        claims: Sequence[Claimed],
        gone: Mapping[str, Mapping[tuple[str, str, str], float]] | None = None,
    ) -> Choice:
        """Choose and book; ``gone`` counts as going too."""
        if not claims:
            return Choice()
        room = account.room(view.steady)
        room = replace(room, going={**self._account.expected, **room.going, **(gone or {})})
        shown = account is self._shadow or self._way is None
        choice = choose(claims, room, self._refusal, only_shown=shown)
        for one in choice.evictions:
            account.book(
                one.pod,
                one.claim.resource,
                one.frees,
                _grace(one),
                view.steady,
                stays=self._way is not None and self._way.pod_stays,
            )
        return choice

    def _refusal(self, pod: PodView, claim: Claim) -> str:
        return refusal(pod, claim, self._own)

    def _begin(self, eviction: Eviction) -> None:
        """Have an eviction carried out, or only tell of it."""
        if self._way is None:
            self._log_eviction("would evict", eviction, reason=self.why_not)
            return
        attempt = Attempt(
            self._now(),
            eviction.pod.name,
            eviction.pod.uid,
            eviction.strategy,
            eviction.claim.rule,
            eviction.claim.resource,
        )
        self._recent.append(attempt)
        self._waiting.put_nowait((eviction, attempt))

    async def _carry_out(self, way: Way, eviction: Eviction, attempt: Attempt) -> None:
        try:
            outcome = await way.evict(
                eviction.pod.record, grace_seconds(eviction.pod), forced=eviction.claim.forced
            )
        except Exception as error:
            # A defect of ours: it costs this eviction, and nothing else.
            outcome = Outcome(End.UNKNOWN, reason_of(error))
        self._ended(eviction, outcome)
        if attempt in self._recent:
            place = self._recent.index(attempt)
            self._recent[place] = replace(attempt, end=outcome.end, reason=outcome.reason)

    def _ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Book, count and tell what became of an eviction."""
        uid, now, pod = eviction.pod.uid, self._monotonic(), eviction.pod.record.pod
        self.counts.ended(outcome.end, eviction.claim.rule, pod.namespace, pod.name)
        if outcome.end in _GOES:
            self._account.accepted(uid, now)
        else:
            self._account.refused(
                uid,
                outcome.reason,
                now,
                after=outcome.again_after,
                happened=outcome.disrupted or outcome.end is End.UNKNOWN,
            )
        self._evicting = self._account.going
        if outcome.end is End.GONE:
            self._log_eviction("gone before it was evicted", eviction)
            return
        if outcome.end is End.EVICTED:
            self._log_eviction("evicted", eviction, by=self.way)
            text = f"evicted by {self.way}: {eviction.claim.decision.outcome}"
            said = replace(
                eviction.decision, outcome=f"{text} ({eviction.claim.rule})", aspect=EVICTED
            )
            self._news.append((eviction.strategy, eviction.mode, said))
        else:
            self._log_eviction("not evicted", eviction, reason=outcome.reason)
        self._say([events.of_outcome(eviction, outcome, self.way)])

    def _tell_late(self, late: Late) -> None:
        pod, strategy, seconds, attempts = late
        if not attempts:
            # It ends for another's reasons.
            return
        self.counts.outcomes["late"] += 1
        _log.warning("does not go", pod=pod.name, seconds=round(seconds), evictions=attempts)
        text = "has not gone since it was evicted; nothing is expected of it any more"
        given = (Given("since", seconds, "s"), Given("evictions", attempts))
        decision = Decision(text, given=given, pod=pod.name, aspect="eviction")
        self._news.append((strategy, Mode.ON, decision))
        message = f"{text} ({seconds:.0f} s, evicted {attempts} times)"
        self._say([events.Saying(pod.record.pod, events.STAYS, message)])

    def _tell_warned(self, choice: Choice, account: Account, now: float) -> None:
        for warned in choice.warned:
            if account.warn(warned.pod.uid, now) and self._way is not None:
                fields = {"pod": warned.pod.name, "strategy": warned.strategy}
                _log.info("to be evicted soon", **fields, seconds=warned.seconds)
                self._say([events.of_warned(warned)])

    def _log_eviction(self, message: str, eviction: Eviction, **fields: object) -> None:
        tell = _log.warning if message == "not evicted" else _log.info
        tell(
            message,
            pod=eviction.pod.name,
            strategy=eviction.strategy,
            rule=eviction.claim.rule,
            **fields,
            why=str(eviction.decision),
        )

    def _say(self, sayings: Iterable[events.Saying]) -> None:
        for saying in sayings:
            self._announcer.say(saying, self._now(), self._monotonic())


def open_evictor(
    settings: Settings, cluster: ClusterSide | None, environ: Mapping[str, str]
) -> Evictor:
    """Be ready to evict, as the settings say."""
    api: Api | None = cluster.client if cluster is not None else None
    way, why_not = _way(settings, api)
    if settings.evict_dry_run:
        why_not = "--evict-dry-run"
    limits = Limits(
        settings.evictions_per_minute,
        settings.cpu_evict_cool_time_seconds,
        settings.memory_evict_cool_time_seconds,
        # The look after the next one began when it was gone.
        settles=2 * settings.collect_res_used_interval + 1,
    )
    announcer = Announcer(api, cluster.name if cluster else node_name(settings, environ))
    return Evictor(way, limits, announcer, why_not=why_not, own=own_names(environ))


def _way(settings: Settings, api: Api | None) -> tuple[Way | None, str]:
    """By the API where there is one, unless told otherwise."""
    if settings.only_evict_by_api:
        why_not = "" if api else "--only-evict-by-api, and there is no Kubernetes API"
        return (ByApi(api) if api else None), why_not
    if api is not None and not settings.evict_by_stop:
        return ByApi(api), ""
    return ByStop(settings.container_runtime_endpoint), ""


def _grace(eviction: Eviction) -> float:
    """The seconds that the pod has to end in."""
    return float(FORCED_GRACE) if eviction.claim.forced else grace_seconds(eviction.pod)
