"""The loop that keeps the node level: who runs here, what is wanted, writing it.

Rounds run in one thread of their own, one after the other: kernel files may block,
and nobody else writes. What hook calls and NRI tell starts a round at once;
otherwise there is one at an interval.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from koord_hooks.stages import Stage
from koord_host.files import Reader
from koord_host.layout import Layout
from koord_model.node import NodeView
from koord_model.pod import Container, Pod
from koord_service.logs import get_log

from koordlet.levelling import container_group
from koordlet.reconciler import Done, Reconciler
from koordlet.states import kubelet_pods
from koordlet.states.inventory import Inventory, PodRecord
from koordlet.states.node_view import NodeViews
from koordlet.states.pod_source import fetch
from koordlet.states.remembered import Remembered

_log = get_log("koordlet.node")

OBSERVED = (Stage.POST_STOP_POD_SANDBOX, Stage.POST_START_CONTAINER, Stage.POST_STOP_CONTAINER)
"""Stages that tell what runs, whether a plugin has a hook for them or not."""

_SETTLE_SECONDS = 60.0
_FETCH_SECONDS = 3.0
_UPDATE_SECONDS = 1.0
_GATHER_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between rounds, and between two looks at the list of pods."""

    round: float = 10.0
    pods: float = 10.0


class NodeKeeper:
    """Knows what runs, and has it levelled.

    ``tell`` is called on the event loop with the result of each round.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        views: NodeViews,
        layout: Layout,
        reader: Reader,
        tell: Callable[[Done], None],
        *,
        cache_groups: Callable[[], frozenset[str]] = frozenset,
        remembered: Remembered | None = None,
        pods: str = "",
        runtime: str = "containerd",
        pace: Pace = Pace(),
    ) -> None:
        self.inventory = Inventory()
        self._reconciler = reconciler
        self._views = views
        self._layout = layout
        self._reader = reader
        self._tell = tell
        self._cache_groups = cache_groups
        self._remembered = remembered
        self._pods = pods
        self._runtime = runtime
        self._pace = pace
        self._due = asyncio.Event()
        self._complete = False
        self._touched: set[str] = set()
        self._fetched_at = float("-inf")
        self._swept_at = float("-inf")
        self._no_list = ""
        self._writer = ThreadPoolExecutor(1, "writer")
        if remembered is not None:
            self._recall(remembered)

    @property
    def view(self) -> NodeView:
        """The node as plugins see it."""
        return self._views.current

    def saw(self, stage: Stage, subject: Pod | Container) -> None:
        """A hook call, or NRI, told of a pod (pod stages) or a container (the others)."""
        now = time.monotonic()
        if isinstance(subject, Pod):
            if stage is Stage.PRE_RUN_POD_SANDBOX:
                self.inventory.saw_pod(subject, now, self._runtime)
                self._touched.add(subject.uid)
            else:
                self._lost_sandbox(subject.uid)
        elif not subject.id:
            # Of a container without an id nobody knows which cgroup is its own.
            return
        elif stage is Stage.POST_START_CONTAINER:
            self.inventory.saw_container(subject, now, self._runtime)
        elif stage is Stage.POST_STOP_CONTAINER:
            self.inventory.lost_container(subject.pod.uid, subject.id, now)
        elif stage is Stage.PRE_UPDATE_CONTAINER_RESOURCES:
            # From now on these are the limits asked for, and what is levelled follows them.
            self.inventory.saw_container(subject, now, self._runtime)
            # The runtime is about to set its limits, and systemd all groups above it.
            loop = asyncio.get_running_loop()
            loop.call_later(_UPDATE_SECONDS, self._touch, subject.pod.uid)
            return
        else:
            return
        self._due.set()

    def _lost_sandbox(self, uid: str) -> None:
        """A sandbox has ended, and its pod with it unless containers of the pod run.

        Those are in a newer sandbox: the kubelet stops and removes old ones again later.
        """
        record = self.inventory.get(uid)
        if record is not None and not any(self._running(record)):
            self.inventory.lost_pod(uid)

    def _running(self, record: PodRecord) -> Iterator[str]:
        """The ids of containers whose groups are there."""
        for ident, one in record.containers.items():
            if self._there(container_group(record, one, self._layout)):
                yield ident

    def _touch(self, uid: str) -> None:
        self._touched.add(uid)
        self._due.set()

    def synchronize(self, pods: Iterable[Pod], running: Iterable[Container]) -> None:
        """NRI told of all there is; without a list of pods, nothing else runs."""
        now = time.monotonic()
        if not self._pods:
            self.inventory.replace((), now)
            self._complete = True
        for pod in pods:
            self.inventory.saw_pod(pod, now, self._runtime)
        for container in running:
            self.inventory.saw_container(container, now, self._runtime)
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
                await self._look_for_pods()
                self._drop_vanished()
                await self.level()
            except Exception as error:
                # A defect of ours: the next round may be without it, and hooks are answered.
                _log.error("round failed", reason=f"{type(error).__name__}: {error}")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pace.round):
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

    def _recall(self, remembered: Remembered) -> None:
        """Take up where the last run left off, with the pods whose groups are there."""
        known = [one for one in remembered.load() if self._there(self._group(one))]
        self.inventory.recall(known, time.monotonic())

    async def finish(self, last: Callable[[], None]) -> None:
        """Do one last thing in the writer's thread, after the round under way."""
        await asyncio.get_running_loop().run_in_executor(self._writer, last)
        self._writer.shutdown()

    def _round(
        self, records: tuple[PodRecord, ...], touched: set[str]
    ) -> tuple[Done, tuple[str, ...]]:
        started = time.perf_counter()
        # Whose CPUs are their own is not known before the first list.
        unknown = self._pods and not self._complete
        view, problems = self._views.refresh(
            None if unknown else [record.pod for record in records]
        )
        done = self._reconciler.level_all(records, view, complete=self._complete, touched=touched)
        if self._remembered is not None:
            self._remembered.keep(records)
        return replace(done, seconds=time.perf_counter() - started), problems

    async def _look_for_pods(self) -> None:
        now = time.monotonic()
        if not self._pods or now - self._fetched_at < self._pace.pods:
            return
        self._fetched_at = now
        try:
            text = await asyncio.to_thread(fetch, self._pods, _FETCH_SECONDS)
            self.inventory.replace(kubelet_pods.parse(text, self._layout), now)
            self._complete = True
            reason = ""
        except (OSError, ValueError) as error:
            reason = str(error) if isinstance(error, OSError) else f"{self._pods} {error}"
        self._tell_of_list(reason)

    def _tell_of_list(self, reason: str) -> None:
        """One line when there is no list any more, or for another reason; one when there is."""
        if reason and reason != self._no_list:
            _log.warning("no list of pods, those known stay", reason=reason)
        elif self._no_list and not reason:
            _log.info("there is a list of pods again", source=self._pods)
        self._no_list = reason

    def _drop_vanished(self) -> None:
        """Without a list, pods and containers whose groups are gone for a while have ended.

        Nobody tells of containers that end by themselves, nor of what ends unasked.
        """
        now = time.monotonic()
        listed = self._pods and not self._no_list
        if listed or now - self._swept_at < self._pace.round:
            return
        self._swept_at = now
        for record in self.inventory.records():
            if self.inventory.age(record, now) <= _SETTLE_SECONDS:
                continue
            if not self._there(self._group(record)):
                self.inventory.lost_pod(record.pod.uid)
                continue
            for ident in record.containers.keys() - self._running(record):
                self.inventory.lost_container(record.pod.uid, ident, now)

    def _group(self, record: PodRecord) -> str:
        return self._layout.group_of_parent(record.pod.cgroup_parent)

    def _there(self, group: str) -> bool:
        return self._reader.exists(self._layout.group_path(group, "cpu"))
