"""From the API's JSON to what the scheduler keeps of a reservation. No IO."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import msgspec
from koord_model.quantity import quantity_texts

from koord_scheduler.classes.placed_pod import numa_allocation, placed_usage, pod_devices
from koord_scheduler.classes.pod_class import PodClass, pod_class
from koord_scheduler.classes.pod_reader import ClusterPod, ReservedRoom, WaitingPod, created_at
from koord_scheduler.objects.pod import DEFAULT_SCHEDULER, PodInfo, SchedulingSpec
from koord_scheduler.plugins.device_share.device_needs import NO_DEVICE_NEEDS
from koord_scheduler.plugins.node_numa_resource.pod_requirements import NO_REQUIREMENTS
from koord_scheduler.plugins.reservation.lifecycle import NO_LIFE
from koord_scheduler.plugins.reservation.objects import (
    ReservationObject,
    ReservationTemplate,
    read_reservation_object,
)
from koord_scheduler.plugins.reservation.pod_needs import ReservationNeeds, ReserveNeeds
from koord_scheduler.plugins.reservation.reservation import RESTRICTED, Reservation, reservation_of
from koord_scheduler.state.cluster_state import ClusterState, PodUsage
from koord_scheduler.state.resources import PODS

_NAMESPACE = "Reservation"
PRE_ALLOCATION_UNSUPPORTED = (
    "node(s) reservation pre allocation is unsupported with current attributes"
)


def reservation_key(name: str) -> str:
    """The key of a reservation among pods; no namespace has such a name."""
    return f"{_NAMESPACE}/{name}"


def is_reservation_key(key: str) -> bool:
    """Whether a key is that of a reservation, and not of a pod."""
    return key.startswith(f"{_NAMESPACE}/")


class ClusterReservation(NamedTuple):
    """A reservation, what it takes of its node as a whole, and the ``pod`` that it waits as."""

    reservation: Reservation
    whole: PodUsage
    pod: ClusterPod


class ReservationReader:
    """Reads reservations for one set of columns."""

    def __init__(self, nodes: ClusterState) -> None:
        self._nodes = nodes

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
        one = reservation_of(given)
        if problem:
            one = replace(one, problem=problem, matchers=())
        pod = _without_volumes(one.pod)
        usage = placed_usage(pod, self._nodes)
        # Of a node's pods it is one, for however many pods it is reserved.
        amounts = {name: amount for name, amount in one.allocatable.items() if name != PODS}
        resources = self._nodes.resources
        replaced = dict(usage.request) | dict(resources.request(amounts))
        whole = usage._replace(request=resources.request(replaced))
        if one.node and self._nodes.node_devices.is_used:
            whole = whole._replace(devices=pod_devices(pod))
        if one.node and self._nodes.numa.is_used:
            whole = whole._replace(numa=numa_allocation(pod))
        pod_class = _class(given, one, pod, problem, has_numa=self._nodes.numa.is_used)
        return ClusterReservation(one, whole, self._pod(pod_class, one, pod, whole))

    def _pod(
        self, pod_class: PodClass, one: Reservation, pod: PodInfo, usage: PodUsage
    ) -> ClusterPod:
        spec = pod.spec
        waiting = WaitingPod(
            pod_class,
            usage,
            spec.scheduler_name,
            created_at(pod),
            (),
            self._may_preempt(one, spec),
            "",
            one.status_message,
            ReservedRoom(one.name, one.uid, one.resource_version, quantity_texts(one.allocatable)),
        )
        key = reservation_key(one.name)
        return ClusterPod(
            key, one.uid, spec.priority or 0, None, one.is_leaving, "", usage, waiting
        )

    def _may_preempt(self, one: Reservation, spec: SchedulingSpec) -> bool:
        """One that may take pods over leaves the others where they are."""
        is_enabled = self._nodes.reservations.preempt and one.pre_allocation is None
        return is_enabled and spec.preemption_policy != "Never"


def _class(
    given: ReservationObject, one: Reservation, pod: PodInfo, problem: str, *, has_numa: bool
) -> PodClass:
    template = given.spec.template
    node = template.spec.node_name if template is not None else ""
    needs = ReservationNeeds(
        problem=problem, reserve=ReserveNeeds(one.policy, node, _takes_over(one))
    )
    made = pod_class(pod, has_numa=has_numa, has_reservations=False)
    if not problem and one.pre_allocation is not None:
        needs = needs._replace(problem=_problem(one, made))
    return replace(made, reservation=needs)


def _takes_over(one: Reservation) -> Reservation | None:
    """Itself if it may take pods over, without what its status says of how it went so far."""
    if one.pre_allocation is None:
        return None
    return replace(
        one, phase="", resource_version="", status_message="", life=NO_LIFE, pod=PodInfo()
    )


def _problem(one: Reservation, pod: PodClass) -> str:
    """Why a reservation that may take pods over gets no node."""
    if one.problem:
        return one.problem
    if one.policy != RESTRICTED:
        return f"{PRE_ALLOCATION_UNSUPPORTED}: set spec.allocatePolicy to {RESTRICTED}"
    if pod.numa != NO_REQUIREMENTS or pod.devices != NO_DEVICE_NEEDS:
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
