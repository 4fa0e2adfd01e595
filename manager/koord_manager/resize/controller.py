"""Resizes pods by what is recommended for their workloads, and undoes what did harm."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.event_recorder import EventRecorder
from koord_kube.informer import Informer
from koord_kube.namespaced_informers import NamespacedInformers
from koord_kube.protocol.api import Api, ApiError, NotFoundError
from koord_kube.protocol.resources import PODS
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.shared_backoff import backoff_of

from koord_manager.resize.core import pods, record, throttling
from koord_manager.resize.core.decisions import PodDecision, ResizeAction, decide, paced
from koord_manager.resize.core.pods import ResizePod
from koord_manager.resize.core.record import NO_REPORT, ThrottlingReport
from koord_manager.resize.core.rollout_state import KINDS, WITHOUT_ROLLOUTS, rollout
from koord_manager.resize.core.sources import (
    RESIZE_SOURCES,
    ResizeSource,
    SourceIndex,
)
from koord_manager.resize.writer import RefusedResizeError, ResizeWriter

GATE = "PodResize"
_AT_ONCE = 250
"""Pods that are decided about in one go, which takes some milliseconds."""
_REFUSED_SECONDS = 600.0
_PATIENCE_SECONDS = 5.0
_SOON_SECONDS = 1.0
"""So soon follows a look when somebody changed a policy, or pods were not known yet."""
_MOST_SHOWN = 200
"""Pods of a source on a page."""
_ACTIONS = frozenset({ResizeAction.RESIZE, ResizeAction.UNDO})


class ResizeController:
    """The controller; ``status`` is a node's newest NodeMetric status, ``None`` without one.

    ``interval`` is between two looks at all pods, in seconds. ``api`` must write only while this
    manager leads.
    """

    def __init__(
        self,
        api: Api,
        status: Callable[[str], bytes | None],
        recorder: EventRecorder,
        *,
        on_warning: Callable[[str], None],
        interval: float = 60.0,
        clock: Callable[[], float] = time.time,
        pace: ReflectorTiming | None = None,
    ) -> None:
        self._api = api
        self._status = status
        self._recorder = recorder
        self._on_warning = on_warning
        self._interval = interval
        self._clock = clock
        self._index = SourceIndex()
        self._writer = ResizeWriter(api, recorder, clock)
        self._pods = NamespacedInformers(
            api,
            PODS,
            decode=pods.decode,
            on_change=self._pod_changed,
            on_warning=on_warning,
            timing=pace,
        )
        self._decided: dict[str, Sequence[PodDecision]] = {}
        self._due: set[str] = set()
        self._busy: set[str] = set()
        self._woken = anyio.Event()
        self._refused: dict[str, tuple[PodDecision, float]] = {}
        self._said: dict[str, str] = {}
        self.done: Counter[str] = Counter()
        """Resizes by what became of them: resize, undo, refused."""
        self.loop = ReconcileLoop(
            "podresize", self._write, on_warning=on_warning, backoff=backoff_of(api)
        )
        self._sources = tuple(
            Informer(
                api,
                resource,
                decode=read,
                on_change=partial(self._source_changed, self._index.follow(resource)),
                optional=True,
                on_warning=on_warning,
                timing=pace,
            )
            for resource, read in RESIZE_SOURCES.items()
        )

    @property
    def problem(self) -> str:
        """Reason why pods may not be as desired, in a line; "" while there is none."""
        lines = (informer.problem for informer in self._sources if not informer.absent)
        return next(filter(None, lines), "") or self._pods.problem or self.loop.problem

    def states(self) -> Mapping[str, int]:
        """Number of pods by what was decided about them last."""
        found = Counter(
            decision.action.value for known in self._decided.values() for decision in known
        )
        return {action.value: found[action.value] for action in ResizeAction}

    def why(self, source: str) -> dict[str, Any]:
        """Decisions about the pods of a Recommendation or VPA, by its namespace and name."""
        now = self._clock()
        known = [resized for resized in self._index if resized.key == source]
        document: dict[str, Any] = {"at": now, "decides": bool(known), "node": "", "pods": []}
        if not known:
            return document | {"reason": f"no object {source} has the annotation for resizes"}
        shown = [
            {"strategy": str(resized), "mode": resized.policy.mode.value, "since": now, "at": now}
            | decision.decision().document()
            for resized in known
            for decision in self._decided.get(str(resized), ())[:_MOST_SHOWN]
        ]
        problems = [line for resized in known if (line := resized.problem_at(now))]
        return document | {"decisions": shown, "reason": "; ".join(problems)}

    async def run(self) -> None:
        """For ever."""
        async with anyio.create_task_group() as group:
            for informer in self._sources:
                group.start_soon(informer.run)
            for informer in self._sources:
                await informer.wait_known()
            group.start_soon(self.loop.run)
            soon = min(_SOON_SECONDS, self._interval)
            while True:
                self._woken = anyio.Event()
                self._follow(group)
                is_known = all(map(self._pods.is_known, self._pods.namespaces))
                await self.look()
                with anyio.move_on_after(self._interval if is_known else soon):
                    await self._woken.wait()
                    await anyio.sleep(soon)  # others change their minds too

    async def look(self) -> None:
        """Decide about all pods, and queue those that are resized now."""
        now, due = self._clock(), set[str]()
        decided: dict[str, Sequence[PodDecision]] = {}
        for source, found in await self._by_source():
            known = await self._decide(source, found, now)
            decided[str(source)] = known
            due |= {decision.pod.key for decision in known if decision.action in _ACTIONS}
        self._decided, self._due = decided, due
        self._refused = {
            key: known for key, known in self._refused.items() if now - known[1] < _REFUSED_SECONDS
        }
        for key in due:
            self._busy.add(key)
            self.loop.add(key)
        for source in self._index:
            self._report(source, now)

    # ---- following

    def _source_changed(
        self,
        follow: Callable[[str, object, ResizeSource | None], None],
        key: str,
        before: ResizeSource | None,
        now: ResizeSource | None,
    ) -> None:
        follow(key, before, now)
        if now and (not before or before.policy != now.policy or before.problem != now.problem):
            self._woken.set()

    def _follow(self, group: TaskGroup) -> None:
        """Follow the pods of just those namespaces in which there are sources."""
        self._pods.follow(group, self._index.namespaces)

    def _pod_changed(self, key: str, before: ResizePod | None, now: ResizePod | None) -> None:
        """Look at once at a pod that was resized, and has failed."""
        if now and now.record and now.failures and (not before or before.failures != now.failures):
            self.loop.add(key)

    # ---- decisions

    async def _by_source(self) -> list[tuple[ResizeSource, list[ResizePod]]]:
        """The pods of each source whose namespace's pods are known, in the order of names."""
        found: dict[str, tuple[ResizeSource, list[ResizePod]]] = {}
        for namespace in sorted(filter(self._pods.is_known, self._pods.namespaces)):
            known = sorted(self._pods.of(namespace).items())
            for some in range(0, len(known), _AT_ONCE):
                for _, pod in known[some : some + _AT_ONCE]:
                    source = self._index.of(pod)
                    if source is not None:
                        found.setdefault(str(source), (source, []))[1].append(pod)
                await anyio.lowlevel.checkpoint()
        return list(found.values())

    async def _decide(
        self, source: ResizeSource, found: Sequence[ResizePod], now: float
    ) -> Sequence[PodDecision]:
        reports = await self._reports(pod for pod in found if record.is_recent(pod, now))
        made: list[PodDecision] = []
        states: dict[tuple[str, str], str] = {}
        for number, pod in enumerate(found):
            decision = decide(pod, source, now, reports.get(pod.key, NO_REPORT))
            decision = self._unless_refused(decision)
            if decision.action is ResizeAction.RESIZE:
                decision = await self._unless_rolled_out(decision, states)
            made.append(decision)
            if number % _AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
        return paced(made, now, self._busy)

    def _unless_refused(self, decision: PodDecision) -> PodDecision:
        refused, _ = self._refused.get(decision.pod.key, (None, 0.0))
        if decision.action not in _ACTIONS or refused is None:
            return decision
        if (refused.pod.uid, refused.resources) != (decision.pod.uid, decision.resources):
            return decision
        return replace(decision, action=ResizeAction.WAIT, reason=refused.reason)

    async def _unless_rolled_out(
        self, decision: PodDecision, states: dict[tuple[str, str], str]
    ) -> PodDecision:
        """The decision, or to wait for a rollout of the pod's workload; ``states`` are known."""
        # Of a Deployment's pod the ReplicaSet comes first, which knows of no rollout.
        workload = next(iter(reversed(decision.pod.workloads)), None)
        if workload is None or workload[0] in WITHOUT_ROLLOUTS:
            return decision
        if workload not in states:
            states[workload] = await self._rollout(*workload, decision.pod.namespace)
        if not states[workload]:
            return decision
        reason = f"{workload[0]} {workload[1]}: {states[workload]}"
        return replace(decision, action=ResizeAction.WAIT, reason=reason)

    async def _rollout(self, kind: str, name: str, namespace: str) -> str:
        if kind not in KINDS:
            return "whether it is being rolled out is not known of this kind"
        try:
            return rollout(kind, await self._api.get(KINDS[kind], name, namespace))
        except ApiError as error:
            return f"whether it is being rolled out is not known: {error}"

    async def _reports(self, found: Iterable[ResizePod]) -> Mapping[str, ThrottlingReport]:
        """Throttling of all pods on these pods' nodes."""
        reports: dict[str, ThrottlingReport] = {}
        for node in {pod.node for pod in found if pod.node}:
            status = self._status(node)
            if status is None:
                continue
            await anyio.lowlevel.checkpoint()
            try:
                reports |= dict(throttling.reports(status))
            except ValueError as error:
                self._on_warning(f"nodemetrics {node}: {error}")
        return reports

    # ---- writing

    async def _write(self, key: str) -> None:
        try:
            await self._write_newest(key)
        finally:
            self._busy.discard(key)

    async def _write_newest(self, key: str) -> None:
        """Resize one pod, or undo that, by its newest state; then wait for word of that."""
        namespace, _, name = key.partition("/")
        try:
            document = await self._api.get(PODS, name, namespace)
        except NotFoundError:
            return
        pod, now = pods.read(document), self._clock()
        source = self._index.of(pod)
        if source is None:
            return
        report = (await self._reports([pod])).get(key, NO_REPORT)
        decision = self._unless_refused(decide(pod, source, now, report))
        if decision.action is ResizeAction.RESIZE and key in self._due:
            decision = await self._unless_rolled_out(decision, {})
        elif decision.action is not ResizeAction.UNDO:
            return
        try:
            if decision.action is ResizeAction.UNDO:
                await self._writer.undo(document, decision, source)
            elif decision.action is ResizeAction.RESIZE:
                await self._writer.resize(document, decision, report)
            else:
                return
        except RefusedResizeError as error:
            self.done["refused"] += 1
            self._refused[key] = replace(decision, reason=f"refused: {error}"), now
            return
        self.done[decision.action.value] += 1
        # Until then a look at all pods would not know of it, and resize more of them.
        with anyio.move_on_after(2 * _PATIENCE_SECONDS):
            await self._pods.catch_up(namespace, _PATIENCE_SECONDS)

    # ---- reports

    def _report(self, source: ResizeSource, now: float) -> None:
        """Write an Event on a source that cannot be used, or of what it would do."""
        key, problem = str(source), source.problem_at(now)
        shadow = "" if problem else self._shadow(key)
        if self._said.get(key, "") == (problem or shadow):
            return
        self._said[key] = problem or shadow
        about = source.reference
        if problem:
            self._recorder.record(about, "ResizeIgnored", problem, warning=bool(source.problem))
        elif shadow:
            self._recorder.record(about, "ResizeShadow", shadow)
        if source.problem:
            self._on_warning(f"{key}: {problem}")

    def _shadow(self, key: str) -> str:
        shadow = [
            decision
            for decision in self._decided.get(key, ())
            if decision.action is ResizeAction.SHADOW
        ]
        if not shadow:
            return ""
        first = shadow[0]
        return f"would resize {len(shadow)} pods, among them {first.pod.name}: {first.changes}"
