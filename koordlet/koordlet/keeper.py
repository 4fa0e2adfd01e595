"""The loop that keeps the node level: who runs here, what is wanted, writing it.

Rounds run in one thread of their own, one after the other: kernel files may block,
and nobody else writes. What hook calls and NRI tell starts a round at once;
otherwise there is one at an interval.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from koord_hooks.stages import Stage
from koord_model.node import NodeView
from koord_model.pod import Container, Pod
from koord_service.logs import get_log

from koordlet.pods import Pods
from koordlet.reconciler import Done, Reconciler
from koordlet.states.inventory import Inventory, PodRecord
from koordlet.states.node_view import NodeViews
from koordlet.telling import reason_of

_log = get_log("koordlet.node")

OBSERVED = (Stage.POST_STOP_POD_SANDBOX, Stage.POST_START_CONTAINER, Stage.POST_STOP_CONTAINER)
"""Stages that tell what runs, whether a plugin has a hook for them or not."""

_UPDATE_SECONDS = 1.0
_GATHER_SECONDS = 0.02


class NodeKeeper:
    """Has what runs levelled, every ``interval`` seconds and when something is told.

    ``tell`` is called on the event loop with the result of each round, ``before`` in the
    writer's thread at the beginning of one.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        views: NodeViews,
        pods: Pods,
        tell: Callable[[Done], None],
        *,
        cache_groups: Callable[[], frozenset[str]] = frozenset,
        before: Callable[[], None] = lambda: None,
        interval: float = 10.0,
    ) -> None:
        self.pods = pods
        pods.changed = self.wake
        self._reconciler = reconciler
        self._views = views
        self._tell = tell
        self._cache_groups = cache_groups
        self._before = before
        self._interval = interval
        self._due = asyncio.Event()
        self._touched: set[str] = set()
        self._writer = ThreadPoolExecutor(1, "writer")

    @property
    def inventory(self) -> Inventory:
        """Who runs."""
        return self.pods.inventory

    @property
    def view(self) -> NodeView:
        """The node as plugins see it."""
        return self._views.current

    def wake(self) -> None:
        """Start a round soon: something is known that was not."""
        self._due.set()

    def saw(self, stage: Stage, subject: Pod | Container) -> None:
        """A hook call, or NRI, told of a pod (pod stages) or a container (the others)."""
        if not self.pods.saw(stage, subject):
            return
        if isinstance(subject, Container) and stage is Stage.PRE_UPDATE_CONTAINER_RESOURCES:
            # The runtime is about to set its limits, and systemd all groups above it.
            loop = asyncio.get_running_loop()
            loop.call_later(_UPDATE_SECONDS, self._touch, subject.pod.uid)
            return
        if isinstance(subject, Pod) and stage is Stage.PRE_RUN_POD_SANDBOX:
            self._touched.add(subject.uid)
        self._due.set()

    def _touch(self, uid: str) -> None:
        self._touched.add(uid)
        self._due.set()

    def synchronize(self, pods: Iterable[Pod], running: Iterable[Container]) -> None:
        """NRI told of all there is; without a list of pods, nothing else runs."""
        self.pods.synchronize(pods, running)
        self._due.set()

    def has_cache_group(self, group: str) -> bool:
        """Whether a resctrl group has been made, so that containers may start in it."""
        return group in self._cache_groups()

    async def run(self) -> None:
        """Level the node until cancelled."""
        while True:
            # Told of while the round runs means another one after it.
            self._due.clear()
            try:
                await self.level()
            except Exception as error:
                # A defect of ours: the next round may be without it, and hooks are answered.
                _log.error("round failed", reason=reason_of(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._due.wait()
                    # A burst of pods is one round, not one for each.
                    await asyncio.sleep(_GATHER_SECONDS)

    async def level(self) -> Done:
        """One round, now."""
        records = self.inventory.records()
        touched, self._touched = self._touched, set()
        loop = asyncio.get_running_loop()
        found, problems = await loop.run_in_executor(self._writer, self._round, records, touched)
        for line in problems:
            _log.warning("rules", reason=line)
        self._tell(found)
        return found

    async def finish(self, last: Callable[[], None]) -> None:
        """Do one last thing in the writer's thread, after the round under way."""
        await asyncio.get_running_loop().run_in_executor(self._writer, last)
        self._writer.shutdown()

    def _round(
        self, records: tuple[PodRecord, ...], touched: set[str]
    ) -> tuple[Done, tuple[str, ...]]:
        started = time.perf_counter()
        self._before()
        known = [record.pod for record in records] if self.pods.known else None
        view, problems = self._views.refresh(known)
        complete = self.pods.complete
        done = self._reconciler.level_all(records, view, complete=complete, touched=touched)
        self.pods.keep(records)
        return replace(done, seconds=time.perf_counter() - started), problems
