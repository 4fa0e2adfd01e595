"""From the API's JSON to what the scheduler keeps of a reservation. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import msgspec
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import RESERVATIONS, Resource
from koord_model.quantity import quantity_texts

from koord_scheduler.extension_points.kept_room import TAKES_ROOM
from koord_scheduler.objects.pod import DEFAULT_SCHEDULER, PodInfo, SchedulingSpec
from koord_scheduler.plugins.reservation.lifecycle import NO_LIFE
from koord_scheduler.plugins.reservation.objects import (
    ReservationObject,
    ReservationTemplate,
    read_reservation_object,
)
from koord_scheduler.plugins.reservation.pod_needs import ReservationNeeds, ReserveNeeds
from koord_scheduler.plugins.reservation.pod_parts import (
    PRE_ALLOCATABLE,
    RESERVATION,
    RESERVATION_NEEDS,
)
from koord_scheduler.plugins.reservation.reservation import RESTRICTED, Reservation, reservation_of
from koord_scheduler.plugins.reservation.reservation_requests import (
    annotations_of_reservation,
    available_patch,
    unschedulable_patch,
)
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pod import placed_usage, usage_parts
from koord_scheduler.state.pod_class import PodClass, pod_class
from koord_scheduler.state.pod_parts import PodParts
from koord_scheduler.state.pod_reader import ClusterPod, WaitingPod, created_at
from koord_scheduler.state.pod_usage import PodUsage
from koord_scheduler.state.resources import PODS

_NAMESPACE = "Reservation"
PRE_ALLOCATION_UNSUPPORTED = (
    "node(s) reservation pre allocation is unsupported with current attributes"
)


def reservation_key(name: str) -> str:
    """The key of a reservation among pods; no namespace has such a name."""
    return f"{_NAMESPACE}/{name}"


class ReservedRoom(NamedTuple):
    """A reservation that waits for its node as a pod: ``allocatable`` is in quantities."""

    name: str
    uid: str
    resource_version: str
    allocatable: Mapping[str, str]
    resource: Resource = RESERVATIONS

    def bound(self, node: str, at: float) -> Request:
        """The request that gives it a node; ``at`` is in seconds since the epoch."""
        return available_patch(self, node, at)

    def annotated(self, annotations: Mapping[str, str | None]) -> Request:
        """The request that sets annotations before that; ``None`` removes one."""
        return annotations_of_reservation(self, annotations)

    def written(self, document: Mapping[str, Any]) -> ReservedRoom:
        """The reservation as it is once the API has answered a request."""
        return self._replace(resource_version=document["metadata"]["resourceVersion"])

    def unschedulable(self, reason: str, message: str, at: float) -> Request:
        """The request that says why it has no node."""
        return unschedulable_patch(self, reason, message, at)

    def node_of(self, document: Mapping[str, Any]) -> str:
        """The node that it has in a document of the API, "" for none."""
        found: str = document.get("status", {}).get("nodeName", "")
        return found


class ClusterReservation(NamedTuple):
    """A reservation, what it takes of its node as a whole, and the ``pod`` that it waits as."""

    reservation: Reservation
    whole: PodUsage
    pod: ClusterPod


class PreemptionRules(Protocol):
    """Rules of preemption for reservations; with ``preempt`` they may take the place of pods."""

    preempt: bool


class ReservationReader:
    """Reads reservations for one set of columns."""

    def __init__(self, nodes: ClusterState, columns: PreemptionRules) -> None:
        self._nodes = nodes
        self._rules = columns

    def read(self, raw: bytes) -> ClusterReservation:
        """The reservation in a JSON document.

        One whose template cannot be used keeps what it has, and gets no node.

        Raises:
            ValueError: it is not a Reservation.
        """
        given = read_reservation_object(raw)
        try:
            return self._read(given)
        except ValueError as error:
            return self._read(_without_template(given), f"spec.template: {error}")

    def _read(self, given: ReservationObject, problem: str = "") -> ClusterReservation:
        reservation = reservation_of(given)
        if problem:
            reservation = replace(reservation, problem=problem, matchers=())
        pod = _without_volumes(reservation.pod)
        usage = placed_usage(pod, self._nodes)
        # Of a node's pods it is one, for however many pods it is reserved.
        amounts = {name: amount for name, amount in reservation.allocatable.items() if name != PODS}
        resources = self._nodes.resources
        replaced = dict(usage.request) | dict(resources.request(amounts))
        whole = usage._replace(request=resources.request(replaced))
        if reservation.node:
            whole = whole._replace(parts=self._parts(pod, reservation.node))
        pod_class = self._class(given, reservation, pod, problem)
        return ClusterReservation(reservation, whole, self._pod(pod_class, reservation, pod, whole))

    def _parts(self, pod: PodInfo, node: str) -> PodParts:
        """Parts of features that it has of its node, as a pod there would."""
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        found = usage_parts(msgspec.structs.replace(pod, spec=spec), self._nodes)
        return found.with_part(RESERVATION, "").with_part(PRE_ALLOCATABLE, None)

    def _class(
        self, given: ReservationObject, reservation: Reservation, pod: PodInfo, problem: str
    ) -> PodClass:
        template = given.spec.template
        node = template.spec.node_name if template is not None else ""
        takes_over = _takes_over(reservation)
        made = pod_class(pod, self._nodes.features.values())
        needs = ReservationNeeds(
            problem=problem, reserve=ReserveNeeds(reservation.policy, node, takes_over)
        )
        if not problem and reservation.pre_allocation is not None:
            needs = needs._replace(problem=_problem(reservation, made))
        made = made.with_part(TAKES_ROOM, takes_over is not None)
        return made.with_part(RESERVATION_NEEDS, needs)

    def _pod(
        self, pod_class: PodClass, reservation: Reservation, pod: PodInfo, usage: PodUsage
    ) -> ClusterPod:
        spec = pod.spec
        waiting = WaitingPod(
            pod_class,
            usage,
            spec.scheduler_name,
            created_at(pod),
            (),
            self._may_preempt(reservation, spec),
            "",
            reservation.status_message,
            ReservedRoom(
                reservation.name,
                reservation.uid,
                reservation.resource_version,
                quantity_texts(reservation.allocatable),
            ),
        )
        key = reservation_key(reservation.name)
        return ClusterPod(
            key,
            reservation.uid,
            spec.priority or 0,
            None,
            reservation.is_leaving,
            "",
            usage,
            waiting,
        )

    def _may_preempt(self, reservation: Reservation, spec: SchedulingSpec) -> bool:
        """One that may take pods over leaves the others where they are."""
        is_enabled = self._rules.preempt and reservation.pre_allocation is None
        return is_enabled and spec.preemption_policy != "Never"


def _takes_over(reservation: Reservation) -> Reservation | None:
    """Itself if it may take pods over, without what its status says of how it went so far."""
    if reservation.pre_allocation is None:
        return None
    return replace(
        reservation, phase="", resource_version="", status_message="", life=NO_LIFE, pod=PodInfo()
    )


def _problem(reservation: Reservation, pod: PodClass) -> str:
    """Return why a reservation that may take pods over gets no node."""
    if reservation.problem:
        return reservation.problem
    if reservation.policy != RESTRICTED:
        return f"{PRE_ALLOCATION_UNSUPPORTED}: set spec.allocatePolicy to {RESTRICTED}"
    if any(key.beyond_amounts for key in pod.parts.by_key):
        return f"{PRE_ALLOCATION_UNSUPPORTED}: it asks for CPUs, NUMA nodes or devices of its own"
    return ""


def _without_template(given: ReservationObject) -> ReservationObject:
    """The same with a pod that asks for nothing, of the same scheduler."""
    before = given.spec.template
    name = before.spec.scheduler_name if before is not None else DEFAULT_SCHEDULER
    template = ReservationTemplate(spec=SchedulingSpec(scheduler_name=name))
    spec = msgspec.structs.replace(given.spec, template=template)
    return msgspec.structs.replace(given, spec=spec)


def _without_volumes(pod: PodInfo) -> PodInfo:
    """Of a reservation's template volumes and claims are not looked at."""
    spec = msgspec.structs.replace(pod.spec, volumes=None, resource_claims=None)
    return msgspec.structs.replace(pod, spec=spec)
