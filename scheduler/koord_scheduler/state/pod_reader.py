"""From the API's JSON to what the scheduler keeps of a pod. No IO.

Most pods are copies of others. What they ask for is compiled once for all of them, and shared:
what differs, their names, is some hundred bytes each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

import msgspec
from koord_model.times import from_rfc3339
from msgspec.structs import replace as replace_fields

from koord_scheduler.objects.annotations import NO_ANNOTATIONS, without_granted
from koord_scheduler.objects.pod import PodCondition, PodInfo, read_pod
from koord_scheduler.objects.pod_times import NO_TIMES, PodTimes, pod_times
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.lru_cache import LRUCache
from koord_scheduler.state.placed_pod import placed_usage
from koord_scheduler.state.pod_class import PodClass, pod_class, spread_controller
from koord_scheduler.state.pod_parts import NO_PARTS, PodParts
from koord_scheduler.state.pod_usage import PodUsage
from koord_scheduler.state.stand_in import StandIn

_Made = TypeVar("_Made")

_MOST_BYTES = 8 << 20
"""Of each kind, as JSON: a pod may be a megabyte; what is forgotten is compiled again."""
_FEWEST_BYTES = 2 << 10
"""Of one, however short it is as JSON."""
_NO_TIME = float("-inf")


class WaitingPod(NamedTuple):
    """A pod without a node: all that decides when and how it is placed.

    ``usage`` is what it will take of its node. ``created`` is in seconds since the epoch.
    ``condition`` is the message of its PodScheduled condition, "" if there is none that is false.
    ``stands_for`` is the object that waits as if it were this pod; ``None``: the pod itself.
    """

    pod_class: PodClass
    usage: PodUsage
    scheduler_name: str
    created: float
    gates: tuple[str, ...]
    preempts: bool
    nominated: str
    condition: str
    stands_for: StandIn | None = None


class ClusterPod(NamedTuple):
    """A pod: on ``node``, or ``waiting`` for one; ``key`` is namespace/name.

    ``started`` is in seconds since the epoch, ``None`` before. ``is_leaving`` if it was deleted,
    and has not ended yet; ``is_preempted`` if that was to make room for another pod. ``times`` are
    those of a pod that has a node. ``parts`` are those of features, and count for no other pod.
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
    parts: PodParts = NO_PARTS


class _Compiled(NamedTuple, Generic[_Made]):
    """Result for a document of ``size`` bytes."""

    made: _Made
    size: int


class PodReader:
    """Reads pods for one set of columns."""

    def __init__(self, nodes: ClusterState) -> None:
        self._nodes = nodes
        self._usages: LRUCache[bytes, _Compiled[PodUsage]] = LRUCache(_MOST_BYTES, fewest=1)
        self._classes: LRUCache[bytes, _Compiled[tuple[PodClass, PodUsage]]] = LRUCache(
            _MOST_BYTES, fewest=1
        )
        self._alike: LRUCache[PodClass, _Compiled[PodClass]] = LRUCache(_MOST_BYTES, fewest=1)
        self._version = -1
        self._encode = msgspec.msgpack.Encoder().encode
        self._signing = nodes.hooks("signature")
        self._own = nodes.hooks("pod_parts")
        self._classifying = bool(nodes.hooks("class_of"))

    def read(self, raw: bytes) -> ClusterPod:
        """The pod in a JSON document.

        Raises:
            ValueError: it is not a Pod, or a quantity or a selector in it is not one.
        """
        return self._cluster_pod(read_pod(raw))

    def _cluster_pod(self, pod: PodInfo) -> ClusterPod:
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
            pod_times(pod) if waiting is None else NO_TIMES,
            self._parts(pod),
        )

    def read_replacement(self, raw: bytes) -> ClusterPod:
        """A pod as its controller makes it anew: it waits, and nothing was allocated to it yet.

        Raises:
            ValueError: as ``read``.
        """
        pod = read_pod(raw)
        metadata = replace_fields(
            pod.metadata,
            uid="",
            deletion_timestamp=None,
            annotations=without_granted(pod.metadata.annotations or NO_ANNOTATIONS),
        )
        spec = replace_fields(pod.spec, node_name="")
        return self._cluster_pod(PodInfo(metadata, spec))

    def _parts(self, pod: PodInfo) -> PodParts:
        if not self._own:
            return NO_PARTS
        found = PodParts(part for pod_parts in self._own for part in pod_parts(pod))
        return found if found.by_key else NO_PARTS  # of most pods: not one for each

    def _waiting(self, pod: PodInfo) -> WaitingPod:
        spec, metadata = pod.spec, pod.metadata
        own, usage = self._class(pod)
        if self._classifying:
            own = self._nodes.class_of(own, f"{metadata.namespace}/{metadata.name}", metadata.uid)
        return WaitingPod(
            own,
            usage,
            spec.scheduler_name,
            created_at(pod),
            tuple(gate.name for gate in spec.scheduling_gates or ()),
            spec.preemption_policy != "Never",
            pod.status.nominated_node_name or "",
            _unschedulable(pod.status.conditions or ()),
        )

    def _class(self, pod: PodInfo) -> tuple[PodClass, PodUsage]:
        parts = *self._signature(pod), spread_controller(pod)
        key = self._encode(parts)
        version = self._nodes.selected_labels.version
        if self._version != version:
            self._classes, self._version = LRUCache(_MOST_BYTES, fewest=1), version
        found = self._classes.get(key)
        if found is None:
            found = self._compiled_class(pod, len(key))
            self._classes.add(key, found)
        return found.made

    def _compiled_class(self, pod: PodInfo, size: int) -> _Compiled[tuple[PodClass, PodUsage]]:
        nodes = self._nodes
        made = pod_class(pod, nodes.features.values())
        nodes.selected_labels.add(made.selectors())
        nodes.selected_labels.add_keys(
            key for constraint in made.spread for key in constraint.match_keys
        )
        made = replace(made, labels=nodes.selected_labels.of(made.labels))
        alike = self._alike.get(made)
        if alike is None:
            alike = _compiled(made, size)
            self._alike.add(made, alike)
        return _compiled((alike.made, placed_usage(pod, nodes, alike.made.parts)), size)

    def _signature(self, pod: PodInfo) -> tuple[object, ...]:
        return _signature(pod), *(signature(pod) for signature in self._signing)

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
                [
                    condition
                    for condition in status.conditions or ()
                    if condition.type == "PodResizePending"
                ],
            )
        )
        found = self._usages.get(key)
        if found is None:
            found = _compiled(placed_usage(pod, self._nodes), len(key))
            self._usages.add(key, found)
        return found.made


def _compiled(made: _Made, size: int) -> _Compiled[_Made]:
    return _Compiled(made, max(size, _FEWEST_BYTES))


def created_at(pod: PodInfo) -> float:
    """Return when a pod was created, in seconds since the epoch."""
    created = seconds(pod.metadata.creation_timestamp)
    return _NO_TIME if created is None else created


def seconds(time: str | None) -> float | None:
    """A time of the API in seconds since the epoch."""
    return None if time is None else from_rfc3339(time)


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
        spec.scheduling_group,
        spec.workload_ref,
    )


def _unschedulable(conditions: list[PodCondition] | tuple[()]) -> str:
    for condition in conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return ""
