"""The reconcile loop of the node: which pods run, what is desired, writing it.

Rounds run in one thread of their own, the writer's, one after the other: nobody else
writes knobs. Events of hook calls and NRI start a round at once; otherwise there is one at an
interval. What strategies want is written ahead of rounds, and within one between pods.
What takes long is no part of a round: it is a job (``koord_host.planning.jobs``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from koord_hooks.stages import Stage
from koord_host.planning.outcomes import joined
from koord_model.node import NodeView
from koord_model.pod import Container, Pod
from koord_service.error_text import describe_error
from koord_service.logs import get_log

from koordlet.runtime_hooks.reconciler.reconciler import (
    AppliedPlans,
    NodeReconciler,
    ReconcileResult,
)
from koordlet.states_informer.node_view_builder import NodeViewBuilder
from koordlet.states_informer.pod_informer import PodInformer
from koordlet.states_informer.state.pod_inventory import PodInventory, PodRecord

_log = get_log("koordlet.node")

OBSERVED = (Stage.POST_STOP_POD_SANDBOX, Stage.POST_START_CONTAINER, Stage.POST_STOP_CONTAINER)
"""Stages that show what runs, whether a plugin has a hook for them or not."""

_UPDATE_SECONDS = (1.0, 10.0)
"""After the call that comes before an update; on a busy node the runtime takes longer than one."""
_GATHER_SECONDS = 0.02


class QueuedPlans(Protocol):
    """Plans of strategies that are written ahead of rounds, in the writer's thread."""

    def apply_queued(self) -> None:
        """Apply queued plans, if there are any."""

    def take_applied(self) -> AppliedPlans:
        """The plans applied since the last call."""
        ...


class NodeReconcileLoop:
    """Reconciles what runs, every ``interval`` seconds and on events.

    ``on_result`` is called on the event loop with the result of each round. ``plan_queue`` has what
    strategies want.
    """

    def __init__(
        self,
        reconciler: NodeReconciler,
        views: NodeViewBuilder,
        pods: PodInformer,
        plan_queue: QueuedPlans,
        on_result: Callable[[ReconcileResult], None],
        *,
        cache_groups: Callable[[], frozenset[str]] = frozenset,
        interval: float = 10.0,
    ) -> None:
        self.pods = pods
        pods.changed = self.wake
        self._reconciler = reconciler
        self._views = views
        self._on_result = on_result
        self._cache_groups = cache_groups
        self._plan_queue = plan_queue
        self._interval = interval
        self._due = asyncio.Event()
        self._touched: set[str] = set()
        self._ending = False
        self._writer = ThreadPoolExecutor(1, "writer")

    @property
    def inventory(self) -> PodInventory:
        """Running pods."""
        return self.pods.inventory

    @property
    def view(self) -> NodeView:
        """The node as plugins see it."""
        return self._views.newest

    def wake(self) -> None:
        """Start a round soon: something is known that was not."""
        self._due.set()

    def hurry(self) -> None:
        """Write what strategies want at once, and start a round soon."""
        if not self._ending:
            try:
                work = self._writer.submit(self._plan_queue.apply_queued)
            except RuntimeError as error:
                # No thread for the writer: plans wait for the next round.
                _log.error("plan not applied yet", reason=describe_error(error))
            else:
                work.add_done_callback(_log_failure)
        self.wake()

    def current(self, container: Container) -> Container:
        """The container with its pod's labels and annotations as they are now."""
        return self.inventory.current(container)

    def saw(self, stage: Stage, subject: Pod | Container) -> None:
        """Note an event of a hook call or NRI: a pod (pod stages) or a container (the others)."""
        if not self.pods.saw(stage, subject):
            return
        if isinstance(subject, Container) and stage is Stage.PRE_UPDATE_CONTAINER_RESOURCES:
            # The runtime is about to set its limits, and systemd all groups above it.
            loop = asyncio.get_running_loop()
            for seconds in _UPDATE_SECONDS:
                loop.call_later(seconds, self._touch, subject.pod.uid)
            return
        if isinstance(subject, Pod) and stage is Stage.PRE_RUN_POD_SANDBOX:
            self._touched.add(subject.uid)
        self._due.set()

    def _touch(self, uid: str) -> None:
        self._touched.add(uid)
        self._due.set()

    def synchronize(self, pods: Iterable[Pod], running: Iterable[Container]) -> None:
        """Take NRI's complete list; without a list of pods, nothing else runs."""
        self.pods.synchronize(pods, running)
        self._due.set()

    def has_cache_group(self, group: str) -> bool:
        """True if a resctrl group has been made, so that containers may start in it."""
        return group in self._cache_groups()

    async def run(self) -> None:
        """Reconcile the node until cancelled."""
        while True:
            # An event during a round causes another round after it.
            self._due.clear()
            try:
                await self.reconcile()
            except Exception as error:
                # A defect of ours: the next round may be without it, and hooks are answered.
                _log.error("round failed", reason=describe_error(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._due.wait()
                    # A burst of pods is one round, not one for each.
                    await asyncio.sleep(_GATHER_SECONDS)

    async def reconcile(self) -> ReconcileResult:
        """One round, now."""
        records = self.inventory.records()
        touched, self._touched = self._touched, set()
        loop = asyncio.get_running_loop()
        try:
            found, problems = await loop.run_in_executor(
                self._writer, self._round, records, touched
            )
        except Exception:
            # A defect, or no thread for the writer: the next round is to look at them.
            self._touched |= touched
            raise
        for line in problems:
            _log.warning("node settings rejected", reason=line)
        self._on_result(found)
        return found

    async def finish(self, last: Callable[[], None]) -> None:
        """Do one last thing in the writer's thread, after the round under way."""
        self._ending = True
        await asyncio.get_running_loop().run_in_executor(self._writer, last)
        self._writer.shutdown()

    def _round(
        self, records: tuple[PodRecord, ...], touched: set[str]
    ) -> tuple[ReconcileResult, tuple[str, ...]]:
        started = time.perf_counter()
        apply_queued = self._plan_queue.apply_queued
        apply_queued()
        known = [record.pod for record in records] if self.pods.known else None
        view, problems = self._views.refresh(known)
        complete = self.pods.complete
        done = self._reconciler.reconcile_all(
            records, view, complete=complete, touched=touched, between=apply_queued
        )
        applied = self._plan_queue.take_applied()
        self.pods.keep(records)
        writes = joined(*applied.rounds, done.writes)
        seconds = time.perf_counter() - started
        return replace(done, writes=writes, plans=applied.seconds, seconds=seconds), problems


def _log_failure(work: Future[None]) -> None:
    """A defect of ours; the round that follows tries again."""
    if not work.cancelled() and (error := work.exception()) is not None:
        reason = describe_error(error) if isinstance(error, Exception) else repr(error)
        _log.error("round failed", reason=reason)
