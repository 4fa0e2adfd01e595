"""From the API's JSON to what the scheduler keeps of a pod. No IO.

Most pods are copies of others. What they ask for is compiled once for all of them, and shared:
what differs, their names, is some hundred bytes each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

import msgspec
from koord_model.times import from_rfc3339

from koord_scheduler.classes.placed_pod import placed_usage
from koord_scheduler.classes.pod_class import PodClass, pod_class, spread_controller
from koord_scheduler.objects.metadata import NO_ANNOTATIONS
from koord_scheduler.objects.pod import PodCondition, PodInfo, read_pod
from koord_scheduler.objects.requests import placed_requests
from koord_scheduler.objects.scheduling_hint import scheduling_hint
from koord_scheduler.plugins.coscheduling.member import GangMember, gang_member
from koord_scheduler.plugins.coscheduling.scheduling_group import scheduling_group_key
from koord_scheduler.plugins.load_aware.pod_load import (
    NO_TIMES,
    PodTimes,
    has_daemon_owner,
    pod_times,
)
from koord_scheduler.plugins.node_numa_resource.pod_requirements import may_bind_cpus
from koord_scheduler.plugins.reservation.operating_pod import is_operating, operating_reservation
from koord_scheduler.plugins.reservation.reservation import Reservation
from koord_scheduler.state.cluster_state import ClusterState, PodUsage

_Made = TypeVar("_Made")

_MOST_REMEMBERED = 1 << 12
"""Of each kind; what is forgotten is compiled again."""
_MOST_REMEMBERED_BYTES = 8 << 20
"""Of each kind, as JSON: a pod may be a megabyte, most are a kilobyte."""
_NO_TIME = float("-inf")


class ReservedRoom(NamedTuple):
    """What a reservation is to keep of a node: ``allocatable`` is in quantities."""

    name: str
    uid: str
    resource_version: str
    allocatable: Mapping[str, str]


class WaitingPod(NamedTuple):
    """What decides when and how a pod is placed that has no node.

    ``usage`` is what it will take of its node. ``created`` is in seconds since the epoch.
    ``condition`` is the message of its PodScheduled condition, "" if there is none that is false.
    ``reserves``: it is no pod, but a reservation.
    """

    pod_class: PodClass
    usage: PodUsage
    scheduler_name: str
    created: float
    gates: tuple[str, ...]
    preempts: bool
    nominated: str
    condition: str
    reserves: ReservedRoom | None = None


class ClusterPod(NamedTuple):
    """A pod: on ``node``, or ``waiting`` for one; ``key`` is namespace/name.

    ``started`` is in seconds since the epoch, ``None`` before. ``is_leaving`` if it was deleted,
    and has not ended yet; ``is_preempted`` if that was to make room for another pod. ``times`` are
    those of a pod that has a node, where somebody asks for them. ``operates`` is what it reserves
    for others, ``gang`` the gang that it is a member of.
    """

    key: str
    uid: str
    priority: int
    started: float | None
    is_leaving: bool
    node: str
    usage: PodUsage
    waiting: WaitingPod | None
    is_preempted: bool = False
    times: PodTimes = NO_TIMES
    operates: Reservation | None = None
    gang: GangMember | None = None


class PodReader:
    """Reads pods for one set of columns."""

    def __init__(self, nodes: ClusterState) -> None:
        self._nodes = nodes
        self._usages: _Remembered[PodUsage] = _Remembered()
        self._classes: _Remembered[tuple[PodClass, PodUsage]] = _Remembered()
        self._alike: _Remembered[PodClass] = _Remembered()
        self._version = -1
        self._encode = msgspec.msgpack.Encoder().encode

    def read(self, raw: bytes) -> ClusterPod:
        """The pod in a JSON document.

        Raises:
            ValueError: it is not a Pod, or a quantity or a selector in it is not one.
        """
        pod = read_pod(raw)
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        waiting = None if spec.node_name else self._waiting(pod)
        return ClusterPod(
            f"{metadata.namespace}/{metadata.name}",
            metadata.uid,
            spec.priority or 0,
            seconds(status.start_time),
            metadata.deletion_timestamp is not None,
            spec.node_name,
            self._usage(pod) if waiting is None else waiting.usage,
            waiting,
            pod.is_preempted,
            pod_times(pod) if waiting is None and self._nodes.loads.is_used else NO_TIMES,
            self._operates(pod) if waiting is None else None,
            self._gang(pod) if self._nodes.gangs.is_used else None,
        )

    def _gang(self, pod: PodInfo) -> GangMember | None:
        metadata = pod.metadata
        labels = metadata.labels or {}
        annotations = (metadata.annotations or NO_ANNOTATIONS).by_key()
        gangs, group = self._nodes.gangs, pod.spec.scheduling_group
        if gangs.reads_scheduling_groups and group is not None:
            key = scheduling_group_key(metadata.namespace, str(group.get("podGroupName", "")))
            return GangMember(
                key,
                phase=pod.status.phase,
                priority=pod.spec.priority or 0,
                is_preempted=pod.is_preempted,
            )
        if not gangs.reads_pod_groups:
            return None
        found = gang_member(
            metadata.namespace, labels, annotations, created_at(pod), gangs.defaults
        )
        if found is None:
            return None
        owners = sorted(
            f"{metadata.namespace}/{one.name}" for one in metadata.owner_references or ()
        )
        return found._replace(phase=pod.status.phase, owners=",".join(owners))

    def _operates(self, pod: PodInfo) -> Reservation | None:
        if not self._nodes.reservations.is_used or not is_operating(pod):
            return None
        return operating_reservation(pod, placed_requests(pod).amounts)

    def _waiting(self, pod: PodInfo) -> WaitingPod:
        spec = pod.spec
        parts = *self._signature(pod), spread_controller(pod), scheduling_hint(pod)
        key = self._encode(parts)
        nodes = self._nodes
        if self._version != nodes.selected_labels.version:
            self._classes, self._version = _Remembered(), nodes.selected_labels.version
        found = self._classes.get(key)
        if found is None:
            made = pod_class(
                pod,
                has_load=nodes.loads.is_used,
                has_numa=nodes.numa.is_used,
                has_devices=nodes.node_devices.is_used,
                has_reservations=nodes.reservations.is_used,
                has_groups=nodes.gangs.reads_scheduling_groups,
            )
            nodes.selected_labels.add(made.selectors())
            nodes.selected_labels.add_keys(key for one in made.spread for key in one.match_keys)
            made = replace(made, labels=nodes.selected_labels.of(made.labels))
            made = self._alike.get(made) or self._alike.set(made, made, len(key))
            usage = placed_usage(pod, nodes, made.load)
            found = self._classes.set(key, (made, usage), len(key))
        if self._nodes.reservations.is_used:
            metadata = pod.metadata
            name = f"{metadata.namespace}/{metadata.name}"
            found = named_class(found[0], name, metadata.uid, self._nodes), found[1]
        return WaitingPod(
            *found,
            spec.scheduler_name,
            created_at(pod),
            tuple(one.name for one in spec.scheduling_gates or ()),
            spec.preemption_policy != "Never",
            pod.status.nominated_node_name or "",
            _unschedulable(pod.status.conditions or ()),
        )

    def _signature(self, pod: PodInfo) -> tuple[object, ...]:
        load = _load_signature(pod) if self._nodes.loads.is_used else ()
        numa = _numa_signature(pod) if self._nodes.numa.is_used else ()
        devices = _device_signature(pod) if self._nodes.node_devices.is_used else ()
        reservation = _reservation_signature(pod) if self._nodes.reservations.is_used else ()
        return _signature(pod), load, numa, devices, reservation

    def _usage(self, pod: PodInfo) -> PodUsage:
        status = pod.status
        key = self._encode(
            (
                *self._signature(pod),
                pod.metadata.deletion_timestamp is not None,
                status.container_statuses,
                status.init_container_statuses,
                status.resources,
                status.allocated_resources,
                [one for one in status.conditions or () if one.type == "PodResizePending"],
            )
        )
        found = self._usages.get(key)
        if found is None:
            found = self._usages.set(key, placed_usage(pod, self._nodes), len(key))
        return found


def named_class(pod: PodClass, key: str, uid: str, nodes: ClusterState) -> PodClass:
    """The class of a pod by itself if a reservation is for this pod, and not for its like."""
    namespace, _, name = key.partition("/")
    needs = pod.reservation
    is_named = nodes.reservations.named.has(namespace, name, uid)
    named = (name, uid) if is_named else ("", "")
    if (needs.name, needs.uid) == named:
        return pod
    return replace(pod, reservation=needs._replace(name=named[0], uid=named[1]))


def created_at(pod: PodInfo) -> float:
    """When a pod was created, in seconds since the epoch."""
    created = seconds(pod.metadata.creation_timestamp)
    return _NO_TIME if created is None else created


def seconds(time: str | None) -> float | None:
    """A time of the API in seconds since the epoch."""
    return None if time is None else from_rfc3339(time)


def _load_signature(pod: PodInfo) -> tuple[object, ...]:
    """What decides beside that about its load."""
    metadata = pod.metadata
    return metadata.annotations, pod.spec.priority, has_daemon_owner(pod)


def _numa_signature(pod: PodInfo) -> tuple[object, ...]:
    """What decides beside that about its CPUs and NUMA nodes, and which of them it has."""
    metadata, spec = pod.metadata, pod.spec
    priority = spec.priority if may_bind_cpus(metadata.labels or {}) else None
    return metadata.annotations, bool(spec.node_name), priority


def _device_signature(pod: PodInfo) -> tuple[object, ...]:
    """What decides beside that about its devices, and which of them it has."""
    return pod.metadata.annotations, bool(pod.spec.node_name)


def _reservation_signature(pod: PodInfo) -> tuple[object, ...]:
    """What decides beside that about reservations: to whom it belongs, and which one it has."""
    metadata = pod.metadata
    return metadata.annotations, metadata.owner_references, bool(pod.spec.node_name)


def _signature(pod: PodInfo) -> tuple[object, ...]:
    """All that usage is made of, and classes but for their controller: equal for copies."""
    metadata, spec = pod.metadata, pod.spec
    return (
        metadata.namespace,
        metadata.labels,
        spec.containers,
        spec.init_containers,
        spec.resources,
        spec.overhead,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.volumes,
        spec.host_network,
        spec.host_users,
        spec.resource_claims,
        spec.scheduling_group,
        spec.workload_ref,
        pod.status.resource_claim_statuses if spec.resource_claims else None,
        # The claim of an ephemeral volume is the pod's own, and devices are given to one pod.
        *((metadata.name, metadata.uid) if spec.resource_claims or _has_ephemeral(pod) else ()),
    )


def _has_ephemeral(pod: PodInfo) -> bool:
    return any(one.ephemeral is not None for one in pod.spec.volumes or ())


def _unschedulable(conditions: list[PodCondition] | tuple[()]) -> str:
    for one in conditions:
        if one.type == "PodScheduled" and one.status == "False":
            return one.message
    return ""


class _Remembered(Generic[_Made]):
    """The last so many, and what was made of so many bytes, by key."""

    def __init__(self) -> None:
        self._made: OrderedDict[Hashable, tuple[_Made, int]] = OrderedDict()
        self.size = 0
        """Bytes of what they were made of."""

    def get(self, key: Hashable) -> _Made | None:
        found = self._made.get(key)
        if found is None:
            return None
        self._made.move_to_end(key)
        return found[0]

    def set(self, key: Hashable, made: _Made, size: int) -> _Made:
        self._made[key] = made, size
        self.size += size
        while len(self._made) > _MOST_REMEMBERED or self.size > _MOST_REMEMBERED_BYTES:
            _, (_, forgotten) = self._made.popitem(last=False)
            self.size -= forgotten
        return made
