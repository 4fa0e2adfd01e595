"""Tracks the pods that run here, from the kubelet's list, hook calls, NRI and cgroups.

A kubelet that restarts lists its static pods at once and all others when it has heard from the
API server, which may be away for hours. So a list of static pods alone is complete only if no
other pod's cgroup has processes. What a list of others lacks may be about to appear: a pod
that nobody named counts for a minute.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from koord_hooks.stages import Stage
from koord_host.kernel_files.interface import FileReader
from koord_host.kernel_files.occupancy import is_occupied
from koord_host.knobs.layout import Layout
from koord_model.pod import Container, Pod, runs_in_vm
from koord_model.qos import KubeQoS
from koord_service.error_text import describe_error
from koord_service.logs import get_log

from koordlet.states_informer.pod_snapshot import PodSnapshot
from koordlet.states_informer.pod_source import PodListPendingError, PodSource
from koordlet.states_informer.state import kubelet_pods
from koordlet.states_informer.state.cgroup_paths import container_group
from koordlet.states_informer.state.pod_inventory import (
    SETTLE_SECONDS,
    PodInventory,
    PodRecord,
    Presence,
)

_log = get_log("koordlet.pods")

_CONFIG_SOURCE = "kubernetes.io/config.source"
"""The kubelet's annotation: where it has a pod from."""
_NAMED = 3
"""So many pods are named in a line."""
_OLD_SECONDS = 60.0
"""Age at which a list is old, unless three of its intervals are longer."""
_LEAST_SECONDS = 0.2  # between two lists; Koordinator asks five times a second at most
_FOLLOW_SECONDS = 1.0
"""The kubelet knows of a container a moment after its group is there."""


class PodInformer:
    """Running pods.

    ``source`` is where the list comes from, ``None`` where there is none. ``changed`` is
    called on the event loop after each list. ``remembered`` knows those of the last run.
    """

    def __init__(
        self,
        layout: Layout,
        reader: FileReader,
        *,
        source: PodSource | None = None,
        interval: float = 10.0,
        runtime: str = "containerd",
        remembered: PodSnapshot | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.inventory = PodInventory(self._presence)
        self.source = source
        self.complete = False
        """True if all running pods are known."""
        self.problem = ""
        """Reason for which there is no list at present."""
        self._logged = ""
        self.changed = changed
        self._layout = layout
        self._reader = reader
        self._interval = interval
        self._runtime = runtime
        self._remembered = remembered
        self._listed_at = float("-inf")
        self._asked_at = float("-inf")
        self._swept_at = float("-inf")
        self._has_list = False
        self._strange: dict[str, float] = {}
        self._due = asyncio.Event()
        self._listed = asyncio.Event()
        self._recalled = False
        if remembered is not None:
            known = [record for record in remembered.load() if self._there(self._group(record))]
            self.inventory.recall(known, time.monotonic())
            self._recalled = bool(known)

    @property
    def age(self) -> float:
        """Seconds since the last good list; infinite before the first."""
        return time.monotonic() - self._listed_at

    @property
    def fresh(self) -> bool:
        """True if the pods are up to date: not if their list is old."""
        return self.source is None or self.age <= max(_OLD_SECONDS, 3 * self._interval)

    @property
    def known(self) -> bool:
        """True if the owners of exclusive CPUs are known: with a list, not before the first."""
        return self.source is None or self.complete

    def saw(self, stage: Stage, subject: Pod | Container) -> bool:
        """Take an event of a hook call or NRI: a pod (pod stages) or a container (the others).

        Returns:
            Whether that says anything about who runs.
        """
        now = time.monotonic()
        if isinstance(subject, Pod):
            if stage is Stage.PRE_RUN_POD_SANDBOX:
                self.inventory.saw_pod(subject, now, self._runtime)
            else:
                self._lost_sandbox(subject.uid)
        elif not subject.id:
            # Without an ID, the container's cgroup is unknown.
            return False
        elif stage in (Stage.POST_START_CONTAINER, Stage.PRE_UPDATE_CONTAINER_RESOURCES):
            # After an update these are the requested limits, and the desired state follows them.
            self.inventory.saw_container(subject, now, self._runtime)
        elif stage is Stage.POST_STOP_CONTAINER:
            self.inventory.lost_container(subject.pod.uid, subject.id, now)
        else:
            return False
        return True

    def synchronize(self, pods: Iterable[Pod], running: Iterable[Container]) -> None:
        """Take NRI's complete list; without a list of pods, nothing else runs."""
        now, running = time.monotonic(), tuple(running)
        for pod in _newest_sandboxes(pods, running, self._has_sandbox):
            self.inventory.saw_pod(pod, now, self._runtime)
        for container in running:
            self.inventory.saw_container(container, now, self._runtime)
        if self.source is None:
            self.inventory.retain(now)
            self.complete = True

    async def find(self, uid: str) -> PodRecord:
        """Return a pod with its demand; until a list has it, ask for lists and wait.

        Raises:
            LookupError: there is no list to ask for.
        """
        while True:
            record = self.inventory.get(uid)
            if record is not None and record.demand is not None:
                return record
            if self.source is None:
                raise LookupError("there is no list of pods (--pod-list-source)")
            self._ask()
            await self._listed.wait()

    def arrived(self) -> None:
        """A group has come or gone: ask for the list now, and once more a moment later."""
        self._ask()
        asyncio.get_running_loop().call_later(_FOLLOW_SECONDS, self._ask)

    def _ask(self) -> None:
        self._asked_at = float("-inf")
        self._due.set()

    async def run(self) -> None:
        """Keep it up to date until cancelled."""
        try:
            await self._follow()
        finally:
            if self.source is not None:
                await self.source.close()

    async def _follow(self) -> None:
        while True:
            self._due.clear()
            try:
                await self.sync()
                self.drop_vanished()
            except Exception as error:
                # A defect of koordlet: events of hooks and NRI still arrive.
                _log.error("list of pods failed", reason=describe_error(error))
            self._listed.set()
            self._listed = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._due.wait()
                    await asyncio.sleep(_LEAST_SECONDS)

    async def sync(self) -> None:
        """Ask for the list, if it is time."""
        now = time.monotonic()
        if self.source is None or now - self._asked_at < self._interval:
            return
        self._asked_at = now
        unnamed = self._unnamed_groups()
        try:
            text = await self.source.pods()
            listed = kubelet_pods.parse(text, self._layout)
        except PodListPendingError as error:
            self.problem = str(error)
        except OSError as error:
            self._tell_of_list(str(error))
        except ValueError as error:
            self._tell_of_list(f"{self.source.name} {error}")
        else:
            self._has_list = True
            self._take_list(listed, unnamed, now)
            self.changed()
            return
        self._has_list = False
        if self._recalled and not unnamed:
            # Nothing runs but what was known before the restart.
            self.complete = True

    def _take_list(
        self, listed: tuple[PodRecord, ...], unnamed: frozenset[str], asked_at: float
    ) -> None:
        """Take a list; ``unnamed`` are pods' groups that nobody named before it was requested."""
        held = self.inventory.replace(listed, asked_at)
        strange = sorted(unnamed & self._unnamed_groups()) if unnamed else []
        self._strange = {group: self._strange.get(group, asked_at) for group in strange}
        # A kubelet that knows one pod of the API server has had its list.
        synchronized = not all(map(_is_static, listed))
        waited = all(asked_at - since >= SETTLE_SECONDS for since in self._strange.values())
        missing = [record.pod.full_name for record in held] + strange
        if synchronized:
            missing = [] if waited else strange
        self.complete = not strange or (synchronized and waited)
        if not missing:
            self._listed_at = asked_at
        self._tell_of_list(*_lacks(self.source, missing))

    def keep(self, records: tuple[PodRecord, ...]) -> None:
        """Write down who runs: after a restart a list may not say it, or not yet."""
        if self._remembered is not None:
            self._remembered.keep(records)

    def _tell_of_list(self, reason: str, details: str = "") -> None:
        """One line when there is no list any more, or for another reason; one when there is."""
        if reason and reason != self._logged:
            _log.warning("cannot list pods, keeping the known ones", reason=reason + details)
        elif self._logged and not reason and self.source is not None:
            _log.info("listing pods works again", source=self.source.name)
        self.problem, self._logged = reason + details, reason

    def drop_vanished(self) -> None:
        """Without a list, pods and containers whose groups are gone for a while have ended.

        There is no event of containers that end by themselves.
        """
        now = time.monotonic()
        if self._has_list or now - self._swept_at < self._interval:
            return
        self._swept_at = now
        for record in self.inventory.records():
            if self.inventory.age(record, now) <= SETTLE_SECONDS:
                continue
            if not self._there(self._group(record)):
                self.inventory.lost_pod(record.pod.uid)
                continue
            for ident in record.containers.keys() - self._running(record):
                self.inventory.lost_container(record.pod.uid, ident, now)

    def _lost_sandbox(self, uid: str) -> None:
        """A sandbox has ended, and its pod with it unless containers of the pod run.

        Those are in a newer sandbox: the kubelet stops and removes old ones again later.
        """
        record = self.inventory.get(uid)
        if record is not None and not any(self._running(record)):
            self.inventory.lost_pod(uid)

    def _has_sandbox(self, pod: Pod) -> bool:
        """True if a pod that the runtime lists runs: it lists sandboxes that have ended, too."""
        return self._presence(PodRecord(pod), None) is Presence.BUSY

    def _presence(self, record: PodRecord, container: Container | None) -> Presence:
        """Return the presence in cgroups; a hypervisor may be in a group elsewhere."""
        group = self._group(record)
        if container is not None:
            group = container_group(record, container, self._layout)
        if not self._there(group):
            return Presence.GONE
        busy = runs_in_vm(record.pod) or is_occupied(self._reader, self._layout, group)
        return Presence.BUSY if busy else Presence.EMPTY

    def _unnamed_groups(self) -> frozenset[str]:
        """The groups of pods that run and that no source has named."""
        named = {self._group(record) for record in self.inventory.records()}
        return frozenset(
            group
            for group in self._pod_groups()
            if group not in named and is_occupied(self._reader, self._layout, group)
        )

    def _pod_groups(self) -> Iterator[str]:
        for above in map(self._layout.kube_qos_group, KubeQoS):
            with suppress(OSError):
                for name in self._reader.entries(self._layout.group_path(above, "cpu")):
                    if self._layout.is_pod_name(name):
                        yield f"{above}/{name}"

    def _running(self, record: PodRecord) -> Iterator[str]:
        """The ids of containers whose groups are there."""
        for ident, container in record.containers.items():
            if self._there(container_group(record, container, self._layout)):
                yield ident

    def _group(self, record: PodRecord) -> str:
        return self._layout.group_of_parent(record.pod.cgroup_parent)

    def _there(self, group: str) -> bool:
        return self._reader.exists(self._layout.group_path(group, "cpu"))


def _is_static(record: PodRecord) -> bool:
    """True if the kubelet has it from a file or a URL; other sources of lists do not say."""
    return record.pod.annotations.get(_CONFIG_SOURCE, "api") != "api"


def _lacks(source: PodSource | None, missing: list[str]) -> tuple[str, str]:
    """Return a list's problem, and the pods that are missing from it."""
    if source is None or not missing:
        return "", ""
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f"{source.name} lacks pods that run", f": {', '.join(missing[:_NAMED])}{more}"


def _newest_sandboxes(
    pods: Iterable[Pod], running: Iterable[Container], has_processes: Callable[[Pod], bool]
) -> Iterator[Pod]:
    """Of the sandboxes that a runtime lists those that count: one a pod, and none that has ended.

    A runtime lists sandboxes that have ended until they are removed, beside those that
    replaced them. In one of these the pod's containers run.
    """
    of_running = {record.pod.uid: record.pod for record in running}
    newest: dict[str, Pod] = {}
    for pod in pods:
        newest[pod.uid] = of_running.get(pod.uid, pod)
    return (pod for pod in newest.values() if pod.uid in of_running or has_processes(pod))
