"""The collection loop: runs each collector at its interval, and keeps its samples.

Collectors run one after the other in a thread of their own, so that neither hook calls
nor the writer wait for them. One that cannot work is logged once and retried
now and then; one that fails is counted, and the others go on.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import TypeVar

from koord_model.node_slo import NodeSLO
from koord_service.error_text import describe_error
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log

from koordlet.metric_cache.core.interface import MetricCache
from koordlet.metric_cache.core.samples import Sample
from koordlet.metrics_advisor.contract.collector import (
    AnyCollector,
    CollectContext,
    CollectorState,
    Samples,
    UnavailableError,
)
from koordlet.states_informer.state.pod_inventory import PodRecord

F = TypeVar("F")

_log = get_log("koordlet.observer")

_AGAIN_SECONDS = 60.0
"""Between two attempts of a collector that cannot work here."""

_SILENT_SECONDS = 10.0
"""Time after which a collector in a thread of its own counts as hanging."""

_MISSING_SECONDS = 120.0
"""Time for which a pod may be missing from the list before its samples are forgotten."""

_RETAIN_SECONDS = 15.0
"""Between two times at which samples of pods that are gone are forgotten."""

_PAUSE_SECONDS = 1.0
"""After a run that failed as a whole."""


@dataclass(slots=True)
class ScheduledCollector:
    """A collector that is switched on, and when it is due.

    A ``blocking`` one has a thread of its own: what it calls may hang, such as a driver.
    """

    name: str
    collector: AnyCollector
    interval: float
    blocking: bool = False
    due: float = 0.0
    looked: float = 0.0
    """Time of its last run by the steady clock."""
    state: CollectorState = field(init=False)
    thread: threading.Thread | None = None
    pending: float = 0.0
    """Time of its thread's start."""
    found: SimpleQueue[Samples] = field(default_factory=SimpleQueue)
    """Samples of its thread, until the next run takes them."""

    def __post_init__(self) -> None:
        self.state = CollectorState(self.name, self.interval, enabled=True, available=True)


class LatestStore:
    """The newest sample of each series and the newest infos; implements ``Latest``.

    Values older than ``outdated_seconds`` of the steady clock count as none.
    """

    def __init__(self, outdated_seconds: float, clock: Callable[[], float]) -> None:
        self._outdated_seconds = outdated_seconds
        self._clock = clock
        self._samples: dict[str, dict[tuple[str, ...], tuple[float, float]]] = {}
        self._infos: dict[type, object] = {}

    def keep(self, found: Samples, at: float) -> None:
        """Keep what a collector found at ``at``, by the steady clock."""
        for (kind, labels), value in found.samples:
            self._samples.setdefault(kind, {})[labels] = (value, at)
        for info in found.infos:
            self._infos[type(info)] = info

    def frozen(self) -> LatestStore:
        """A copy as it is now: later samples, and time, do not change it."""
        now = self._clock()
        found = LatestStore(self._outdated_seconds, lambda: now)
        found._samples = {kind: series.copy() for kind, series in self._samples.copy().items()}
        found._infos = self._infos.copy()
        return found

    def forget(self) -> None:
        """Drop what is too old to be seen: its subjects may be gone."""
        limit = self._clock() - self._outdated_seconds
        for kind in tuple(self._samples):
            # Copies: collectors in threads add to it meanwhile.
            series = self._of(kind)
            if any(at < limit for _, at in series.values()):
                kept = {labels: point for labels, point in series.items() if point[1] >= limit}
                self._samples[kind] = kept

    def value(self, kind: str, *labels: str) -> float | None:
        """One series' newest value; ``None`` if it is too old or missing."""
        found = self._samples.get(kind, {}).get(labels)
        return found[0] if found is not None and self._fresh(found[1]) else None

    def total(self, kind: str) -> float | None:
        """The sum over all series of a kind; ``None`` where none is new enough."""
        found = [value for value, at in self._of(kind).values() if self._fresh(at)]
        return sum(found) if found else None

    def series(self, kind: str) -> Mapping[tuple[str, ...], float]:
        """The newest value of each series of a kind, by its labels."""
        return {labels: value for labels, (value, at) in self._of(kind).items() if self._fresh(at)}

    def info(self, kind: type[F]) -> F | None:
        """The newest info of a kind."""
        found = self._infos.get(kind)
        return found if isinstance(found, kind) else None

    def _of(self, kind: str) -> Mapping[tuple[str, ...], tuple[float, float]]:
        # A copy: other threads add to it meanwhile.
        return self._samples.get(kind, {}).copy()

    def _fresh(self, at: float) -> bool:
        return at >= self._clock() - self._outdated_seconds


class PresentPods:
    """Pods that run or ran a moment ago: a list may lack one for a while."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._due: float | None = None

    def update(self, uids: Iterable[str] | None, steady: float) -> Set[str] | None:
        """All of them, now and then; ``uids`` are those of the list, ``None`` while there is none.

        Not before a list was known for as long as a pod may be missing from it.
        """
        if uids is None:
            self._due = None
            return None
        self._seen.update(dict.fromkeys(uids, steady))
        if self._due is None:
            self._due = steady + _MISSING_SECONDS
        if steady < self._due:
            return None
        self._due = steady + _RETAIN_SECONDS
        limit = steady - _MISSING_SECONDS
        self._seen = {uid: at for uid, at in self._seen.items() if at >= limit}
        return self._seen.keys()


class CollectorRunner:
    """Collects until cancelled.

    ``watched`` are in the order in which they run; ``off`` are the states of disabled
    collectors. ``pods``, whether they are all ``pods_known``, and ``slo`` are read at each run.
    """

    def __init__(
        self,
        watched: Sequence[ScheduledCollector],
        off: Sequence[CollectorState],
        cache: MetricCache,
        pods: Callable[[], tuple[PodRecord, ...]],
        slo: Callable[[], NodeSLO],
        *,
        pods_known: Callable[[], bool] = lambda: True,
        outdated_seconds: float = 10.0,
    ) -> None:
        self.cache = cache
        self.newest = LatestStore(outdated_seconds, lambda: time.monotonic())
        self._watched = tuple(watched)
        self._off = tuple(off)
        self._pods = pods
        self._pods_known = pods_known
        self._slo = slo
        self._deduplicator = LogDeduplicator()
        self._present = PresentPods()
        self._thread = ThreadPoolExecutor(1, "observer")

    def states(self) -> tuple[CollectorState, ...]:
        """The state of each collector by name, disabled ones included."""
        # By the wall clock as it is now: setting it makes no collector look stuck.
        off_by = time.time() - time.monotonic()
        states = (
            replace(watched.state, looked_at=watched.looked + off_by)
            if watched.state.rounds
            else watched.state
            for watched in self._watched
        )
        return tuple(sorted((*states, *self._off), key=lambda state: state.name))

    async def run(self) -> None:
        """Run what is due, each time something is."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self.cache.load)
        while True:
            try:
                await loop.run_in_executor(self._thread, self.collect_once)
            except Exception as error:
                # A defect of ours: hooks are answered all the same, and the next may be well.
                if self._deduplicator.is_new("look", describe_error(error)):
                    _log.error("collection failed", reason=describe_error(error))
                await asyncio.sleep(_PAUSE_SECONDS)
            due = min((watched.due for watched in self._watched), default=time.monotonic() + 1)
            await asyncio.sleep(max(due - time.monotonic(), 0.01))

    async def finish(self) -> None:
        """Close the cache after the current run; nothing is collected from then on."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self.cache.close)
        self._thread.shutdown()

    def collect_once(self) -> None:
        """One run of all that is due; blocks while kernel files are read."""
        context = CollectContext(
            time.time(),
            time.monotonic(),
            self._pods(),
            self._slo(),
            self.newest,
            self._pods_known(),
        )
        samples: list[Sample] = []
        for watched in self._watched:
            if watched.due <= context.steady:
                # Each with the time of its own reading: one may take long before another.
                own = replace(context, steady=time.monotonic())
                if watched.blocking:
                    self._collect_in_thread(watched, own, context.steady)
                else:
                    samples += self._collect(watched, own, context.steady).samples
            while not watched.found.empty():
                samples += watched.found.get().samples
        self.cache.append(context.at, samples)
        self.newest.forget()
        known = (pod.pod.uid for pod in context.pods) if context.pods_known else None
        if (present := self._present.update(known, context.steady)) is not None:
            self.cache.retain_pods(present)

    def _collect_in_thread(
        self, watched: ScheduledCollector, context: CollectContext, began: float
    ) -> None:
        """Run it in its thread, unless the last run has not ended."""
        if watched.thread is not None and watched.thread.is_alive():
            watched.looked = began
            if began - watched.pending > _SILENT_SECONDS:
                reason = "has not answered for a while: what it asks hangs"
                if self._deduplicator.is_new(watched.name, reason):
                    _log.warning("collector unavailable", collector=watched.name, reason=reason)
                watched.state = replace(watched.state, available=False, reason=reason)
            watched.due = _next(watched.due, watched.interval, began)
            return

        def ask() -> None:
            watched.found.put(self._collect(watched, context, began))

        watched.pending = began
        # A daemon thread: koordlet's exit must not wait for a call that hangs.
        thread = threading.Thread(target=ask, name=f"collector {watched.name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # No thread is left: the other collectors go on, and this one is tried again.
            reason = describe_error(error)
            if self._deduplicator.is_new(watched.name, reason):
                _log.error("collector failed", collector=watched.name, reason=reason)
            watched.state = replace(watched.state, available=False, reason=reason)
            watched.due = _next(watched.due, watched.interval, began)
            return
        watched.thread = thread

    def _collect(
        self, watched: ScheduledCollector, context: CollectContext, began: float
    ) -> Samples:
        """``began`` is when the round did: collectors of one interval stay in one run."""
        started = time.perf_counter()
        wait, found, failed, reason = watched.interval, Samples(), 0, ""
        try:
            found = watched.collector.collect(context)
        except UnavailableError as error:
            wait, reason = max(watched.interval, _AGAIN_SECONDS), str(error)
            if self._deduplicator.is_new(watched.name, reason):
                _log.info("collector unavailable", collector=watched.name, reason=reason)
        except Exception as error:
            # A defect of ours, or a kernel we do not know: the others go on.
            failed, reason = 1, describe_error(error)
            if self._deduplicator.is_new(watched.name, reason):
                _log.error("collector failed", collector=watched.name, reason=reason)
        self.newest.keep(found, context.steady)
        for line in found.partial:
            if self._deduplicator.is_new(watched.name, line):
                _log.warning("not collected", collector=watched.name, reason=line)
        watched.due, watched.looked = (
            _next(watched.due, wait, began),
            began,
        )
        watched.state = replace(
            watched.state,
            available=not reason,
            reason=reason,
            rounds=watched.state.rounds + 1,
            failures=watched.state.failures + failed,
            seconds=time.perf_counter() - started,
            samples=len(found.samples),
        )
        return found


def _next(due: float, interval: float, now: float) -> float:
    """The next time in step with the last one; rounds that were missed are not made up for."""
    return due + interval if due + interval > now else now + interval
