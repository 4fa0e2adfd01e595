"""The pods and containers that run here, from whoever knows: no IO.

What counts of the statements of the list, hook calls and NRI, and koordlet's own record is
decided by the table in ``koord_model.sources``, property by property. A pod that a list lacks has
ended only if its cgroup agrees: a kubelet that has just started knows its static pods alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeVar

from koord_model.demand import Demand as Demand
from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources
from koord_model.sources import (
    ADDRESS,
    CGROUP_PARENT,
    DEMAND,
    LABELS,
    LIMITS_ASKED,
    RUNTIME_CLASS,
    RUNTIME_HANDLER,
    Property,
    Source,
    believe,
)

T = TypeVar("T")

SETTLE_SECONDS = 60.0
"""Time for which a pod that the list lacks counts as there while its cgroup has no processes."""

_NEVER = float("-inf")
_OF_POD = ""
"""In place of a container's id: what was asked for the pod as a whole."""
_POD_PROPERTIES = (
    (LABELS, "labels"),
    (LABELS, "annotations"),
    (CGROUP_PARENT, "cgroup_parent"),
    (RUNTIME_HANDLER, "runtime_handler"),
    (RUNTIME_CLASS, "runtime_class"),
    (ADDRESS, "ip"),
)
_EMPTY_SAYS_NOTHING = frozenset({"cgroup_parent", "runtime_handler", "ip"})


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod that runs, with its containers by id.

    ``runtime`` is how container ids are prefixed in cgroup names; ``pod.cgroup_parent``
    is set. ``demand`` is known of pods in the kubelet's list; ``None`` of others.
    ``resize_pending``, in a list, is whether the limits are not in force yet: the kubelet has
    not accepted them.
    """

    pod: Pod
    containers: Mapping[str, Container] = field(default_factory=dict)
    runtime: str = "containerd"
    demand: Demand | None = None
    resize_pending: bool = False


class Presence(Enum):
    """Presence of a pod or container in cgroups: its group, and the processes in it."""

    GONE = "gone"
    EMPTY = "empty"
    BUSY = "busy"


PresenceOf = Callable[[PodRecord, Container | None], Presence]
"""Function of the presence of a container, or with ``None`` of the whole pod."""


@dataclass(slots=True)
class _KnownPod:
    """Each source's record of a pod, and the believed one.

    Times are of any steady clock: of the last event, of the last list or event that named it,
    of the last list, of the last request about it and each container, and of their ends.
    """

    record: PodRecord
    said: dict[Source, PodRecord] = field(default_factory=dict)
    event_at: float = _NEVER
    named_at: float = _NEVER
    listed_at: float = _NEVER
    requested_at: dict[str, float] = field(default_factory=dict)
    ended_at: dict[str, float] = field(default_factory=dict)

    def is_as_listed(self, listed: PodRecord) -> bool:
        """True if nothing has been said since the last list, and this one says the same."""
        return (
            self.event_at < self.listed_at
            and self.said.get(Source.LIST) == listed
            and self.record.containers.keys() == listed.containers.keys()
        )


class PodInventory:
    """Running pods by UID; ``presence`` asks the cgroups, by default they say nothing."""

    def __init__(self, presence: PresenceOf = lambda *_: Presence.GONE) -> None:
        self._presence = presence
        self._known: dict[str, _KnownPod] = {}

    def records(self) -> tuple[PodRecord, ...]:
        """Every pod known."""
        return tuple(known.record for known in tuple(self._known.values()))

    def get(self, uid: str) -> PodRecord | None:
        """One pod, or ``None``."""
        known = self._known.get(uid)
        return known.record if known is not None else None

    def current(self, container: Container) -> Container:
        """The container with its pod's labels and annotations as they are now.

        A proxy, and a runtime over NRI, repeat those that the sandbox was started with. They can
        be changed since: that is how a batch pod is resized. Of a container whose quota is as it
        was the annotations that hooks wrote stay: a runtime may not show them.
        """
        record = self.get(container.pod.uid)
        if record is None:
            return container
        pod = replace(container.pod, labels=record.pod.labels, annotations=record.pod.annotations)
        before, annotations = record.containers.get(container.id), container.annotations
        if before is not None and before.resources.cpu_quota == container.resources.cpu_quota:
            annotations = {**annotations, **before.annotations}
        return replace(container, pod=pod, annotations=annotations)

    def replace(self, listed: Iterable[PodRecord], asked_at: float) -> tuple[PodRecord, ...]:
        """Take over a list that was asked for at ``asked_at`` (any steady clock's seconds).

        Pods that were reported since then stay, and those whose cgroups have processes. A record
        that says the same as before stays the same object, so that nothing is computed anew for it.

        Returns:
            The pods that stay by their cgroups alone.
        """
        records: dict[str, PodRecord] = {}
        for record in listed:
            # The API server has a static pod twice: the first is the kubelet's own.
            records.setdefault(record.pod.uid, record)
        known: dict[str, _KnownPod] = {}
        for uid, record in records.items():
            known[uid] = self._take_listed(self._known.get(uid), record, asked_at)
        held = []
        for uid, pod in self._known.items():
            if uid in known:
                continue
            if pod.event_at >= asked_at:
                known[uid] = pod
            elif self._is_present(pod.record, None, pod.named_at, asked_at):
                known[uid] = pod
                held.append(pod.record)
        self._known = known
        return tuple(held)

    def retain(self, since: float) -> None:
        """Forget what was not reported since: the runtime has listed all it has."""
        self._known = {uid: known for uid, known in self._known.items() if known.event_at >= since}

    def recall(self, records: Iterable[PodRecord], now: float) -> None:
        """Add pods that were known before a restart; later statements override them."""
        for record in records:
            self._known[record.pod.uid] = _KnownPod(
                record, {Source.RECORD: record}, event_at=now, named_at=now
            )

    def saw_pod(self, pod: Pod, now: float, runtime: str = "containerd") -> PodRecord:
        """A pod that is being started, or whose labels and annotations have changed."""
        known = self._reported(pod, now, runtime)
        known.said[Source.HOOKS] = replace(known.said[Source.HOOKS], pod=pod, runtime=runtime)
        known.requested_at[_OF_POD] = now
        return self._settle(known)

    def saw_container(
        self, container: Container, now: float, runtime: str = "containerd"
    ) -> PodRecord:
        """A container that runs; a pod not known yet is taken from it."""
        known = self._reported(container.pod, now, runtime)
        before = known.said[Source.HOOKS]
        containers = {**before.containers, container.id: container}
        known.said[Source.HOOKS] = replace(before, containers=containers)
        known.requested_at[container.id] = now
        return self._settle(known)

    def lost_container(self, uid: str, container_id: str, now: float) -> None:
        """A container that has ended."""
        known = self._known.get(uid)
        if known is not None and container_id in known.record.containers:
            known.said = {
                source: replace(said, containers=_without(said.containers, container_id))
                for source, said in known.said.items()
            }
            known.requested_at.pop(container_id, None)
            known.ended_at[container_id] = known.event_at = known.named_at = now
            self._settle(known)

    def lost_pod(self, uid: str) -> None:
        """A pod that has ended."""
        self._known.pop(uid, None)

    def age(self, record: PodRecord, now: float) -> float:
        """Seconds since the last event of this pod."""
        known = self._known.get(record.pod.uid)
        return now - (_NEVER if known is None else known.event_at)

    def _reported(self, pod: Pod, now: float, runtime: str) -> _KnownPod:
        """Return the record of a pod with an event, made if there is none."""
        known = self._known.get(pod.uid)
        if known is None:
            known = self._known[pod.uid] = _KnownPod(PodRecord(pod, {}, runtime))
        known.said.setdefault(Source.HOOKS, PodRecord(pod, {}, runtime))
        known.event_at = known.named_at = now
        return known

    def _take_listed(
        self, known: _KnownPod | None, listed: PodRecord, asked_at: float
    ) -> _KnownPod:
        """Return the record of a pod, updated from a list."""
        if known is None:
            known = _KnownPod(listed)
        elif known.is_as_listed(listed):
            known.listed_at = known.named_at = asked_at
            return known
        else:
            known.said[Source.RECORD] = known.record
            ended = {
                ident
                for ident, container in known.record.containers.items()
                if ident not in listed.containers
                and known.requested_at.get(ident, _NEVER) < asked_at
                and not self._is_present(known.record, container, known.named_at, asked_at)
            }
            known.said = {
                source: replace(said, containers=_without(said.containers, *ended))
                for source, said in known.said.items()
            }
            for ident in ended:
                known.requested_at.pop(ident, None)
        known.ended_at = {key: at for key, at in known.ended_at.items() if at >= asked_at}
        running = _without(listed.containers, *known.ended_at)
        known.said[Source.LIST] = replace(listed, containers=running)
        known.listed_at, known.named_at = asked_at, max(asked_at, known.named_at)
        self._settle(known)
        return known

    def _is_present(
        self, record: PodRecord, container: Container | None, named_at: float, now: float
    ) -> bool:
        """True if cgroups say that it runs, though a list lacks it."""
        found = self._presence(record, container)
        return found is Presence.BUSY or (
            found is Presence.EMPTY and now - named_at <= SETTLE_SECONDS
        )

    def _settle(self, known: _KnownPod) -> PodRecord:
        merged = _merge(known)
        if merged != known.record:
            known.record = merged
        return known.record


def _without(containers: Mapping[str, Container], *idents: str) -> Mapping[str, Container]:
    return {key: container for key, container in containers.items() if key not in idents}


def _merge(known: _KnownPod) -> PodRecord:
    """Return the believed record of a pod, by the table."""
    said = known.said
    pods = {source: record.pod for source, record in said.items()}
    believed: dict[str, Any] = {
        name: _believed(row, {source: getattr(pod, name) for source, pod in pods.items()}, name)
        for row, name in _POD_PROPERTIES
    }
    pod = replace(known.record.pod, **believed)
    overhead = next(record.pod.overhead for record in _by_rank(said))
    pod = replace(pod, resources=_limits(known, pods), overhead=overhead)
    demands = {
        source: record.demand for source, record in said.items() if record.demand is not None
    }
    demand = believe(DEMAND, demands)
    return PodRecord(
        pod,
        _containers(known, pod),
        next((record.runtime for record in _by_rank(said) if record.runtime), "containerd"),
        demand.value if demand is not None else None,
    )


def _believed(row: Property, values: Mapping[Source, object], name: str) -> object:
    quiet = name in _EMPTY_SAYS_NOTHING
    found = believe(row, {source: value for source, value in values.items() if value or not quiet})
    return found.value if found is not None else ""


def _by_rank(said: Mapping[Source, PodRecord]) -> Iterator[PodRecord]:
    return (said[source] for source in LABELS.believed if source in said)


def _containers(known: _KnownPod, pod: Pod) -> Mapping[str, Container]:
    """Those that any source names; of each the limits that the kubelet asked for last."""
    found: dict[str, Container] = {}
    for record in _by_rank(known.said):
        for ident in record.containers:
            if ident not in found:
                found[ident] = replace(_container(known, ident), pod=pod)
    return found


def _container(known: _KnownPod, ident: str) -> Container:
    named = {
        source: record.containers[ident]
        for source, record in known.said.items()
        if ident in record.containers
    }
    found = believe(LIMITS_ASKED, _in_force(known, named, ident))
    if found is not None:
        return found.value
    # The list is the only source, and ahead of what the kubelet has accepted.
    return replace(named[Source.LIST], resources=LinuxResources())


def _limits(known: _KnownPod, pods: Mapping[Source, Pod]) -> LinuxResources:
    found = believe(LIMITS_ASKED, _in_force(known, pods, _OF_POD))
    if found is None:
        return LinuxResources()
    limits = found.value.resources
    # A container may have been resized since: its pod's quota is not what was said then.
    before = known.said[found.source].containers
    is_same = all(
        _container(known, ident).resources.cpu_quota in (container.resources.cpu_quota, None)
        for ident, container in before.items()
    )
    return limits if is_same else replace(limits, cpu_quota=None)


def _in_force(known: _KnownPod, said: Mapping[Source, T], ident: str) -> Mapping[Source, T]:
    """The statements about limits that the kubelet has accepted, and not replaced since."""
    listed = known.said.get(Source.LIST)
    pending = listed is not None and listed.resize_pending
    is_newer = known.requested_at.get(ident, _NEVER) >= known.listed_at
    counts = {
        Source.HOOKS: listed is None or is_newer or (pending and Source.RECORD not in said),
        Source.LIST: not pending,
        Source.RECORD: True,
    }
    return {source: value for source, value in said.items() if counts[source]}
