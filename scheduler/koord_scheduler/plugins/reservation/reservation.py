"""A reservation as decisions need it, made from its object once. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec
from koord_model.demand import Amounts, amounts
from koord_model.keys import (
    ANNOTATION_RESERVATION_RESTRICTED_OPTIONS,
    LABEL_PRE_ALLOCATION_REQUIRED,
    LABEL_PRIORITY,
    LABEL_RESERVATION_ORDER,
)
from koord_model.whole_number import whole_number

from koord_scheduler.objects.annotations import (
    NO_ANNOTATIONS,
    annotations_of_room,
    read_annotations,
)
from koord_scheduler.objects.metadata import AnnotatedMeta
from koord_scheduler.objects.node import Taint
from koord_scheduler.objects.pod import PodInfo, SchedulingSpec
from koord_scheduler.objects.requests import pending_requests
from koord_scheduler.plugins.reservation.lifecycle import NO_LIFE, ReservationLife, reservation_life
from koord_scheduler.plugins.reservation.objects import (
    AVAILABLE,
    PENDING,
    WAITING,
    PreAllocationSpec,
    ReservationObject,
)
from koord_scheduler.plugins.reservation.owners import OwnerMatcher, owner_matchers

DEFAULT_POLICY, ALIGNED, RESTRICTED = "", "Aligned", "Restricted"
"""Allocate policies of reservations; the first two mean the same."""
HIGHEST_PRIORITY = 2**31 - 1
_CLUSTER = "Cluster"
_DEFAULT_NAMESPACE = "default"
_NO_POD = PodInfo()


class PreAllocation(NamedTuple):
    """Taking over of running pods by a reservation: they become its owners.

    They are those that it is for or, in the mode ``cluster``, that say so; it is one of them or,
    with ``multiple``, as many as it needs. If it ``is_required``, it gets no node without.
    """

    cluster: bool = False
    multiple: bool = False
    is_required: bool = False


@dataclass(frozen=True)
class Reservation:
    """One reservation.

    ``node`` has it, "" before. ``allocatable`` is what owners get. ``resources`` are those of it
    that are counted: all, or those that the policy Restricted names. ``order``: lower ones are
    taken first, 0 is no order. ``pre_allocation``: it may take pods over. ``unschedulable``: it is
    not for new pods. ``matchers`` say for whom it is; for nobody where ``problem`` says, in a line,
    why that is not known. ``pod`` is what it keeps the place of, ``status_message`` why it has no
    node, ``life`` how it ends.
    With a ``namespace`` it is a pod that acts as a reservation.
    """

    name: str
    uid: str
    phase: str = PENDING
    node: str = ""
    allocatable: Amounts = field(default_factory=dict)
    resources: frozenset[str] = frozenset()
    policy: str = DEFAULT_POLICY
    allocate_once: bool = True
    pre_allocation: PreAllocation | None = None
    order: int = 0
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    matchers: tuple[OwnerMatcher, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    resource_version: str = ""
    is_leaving: bool = False
    status_message: str = ""
    pod: PodInfo = _NO_POD
    namespace: str = ""
    life: ReservationLife = NO_LIFE

    @property
    def key(self) -> str:
        """Key of the reservation: its name, of a pod namespace/name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def is_available(self) -> bool:
        """True if pods may use it."""
        return bool(self.node) and self.phase == AVAILABLE

    @property
    def holds_room(self) -> bool:
        """True if it uses anything of its node."""
        return bool(self.node) and self.phase in (AVAILABLE, WAITING)

    @property
    def is_pending(self) -> bool:
        """True if it is to get a node."""
        return not self.node and self.phase in ("", PENDING) and not self.is_leaving

    def is_like(self, other: Reservation) -> bool:
        """True if nothing differs by which anything is decided."""
        return self == replace(
            other,
            resource_version=self.resource_version,
            status_message=self.status_message,
            life=self.life,
        )


def reservation_of(given: ReservationObject) -> Reservation:
    """Read a reservation from an object.

    Raises:
        ValueError: it has no template, or a quantity of it is not one.
    """
    metadata, spec, status = given.metadata, given.spec, given.status
    if spec.template is None:
        raise ValueError("it is missing; without it nothing is reserved")
    pod = reserve_pod(given)
    reserved = dict(pending_requests(pod).amounts)
    is_available = bool(status.node_name) and status.phase == AVAILABLE
    allocatable = dict(amounts(status.allocatable)) if is_available else reserved
    labels = metadata.labels or {}
    problem, matchers, resources = "", tuple[OwnerMatcher, ...](), frozenset(allocatable)
    life = NO_LIFE
    try:
        life = reservation_life(given)
        matchers = owner_matchers(spec.owners or ())
        if spec.allocate_policy == RESTRICTED:
            resources = _restricted(given, resources)
    except ValueError as error:
        problem, matchers = f"{error}; no pod gets anything of it", ()
    return Reservation(
        metadata.name,
        metadata.uid,
        status.phase,
        status.node_name,
        allocatable,
        resources,
        spec.allocate_policy,
        allocate_once=spec.allocate_once is not False,
        pre_allocation=_pre_allocation(given, pod),
        order=whole_number(labels.get(LABEL_RESERVATION_ORDER, "")) or 0,
        unschedulable=spec.unschedulable or metadata.deletion_timestamp is not None,
        taints=tuple(spec.taints or ()),
        matchers=matchers,
        labels=labels,
        problem=problem,
        resource_version=metadata.resource_version,
        is_leaving=metadata.deletion_timestamp is not None,
        status_message=_unscheduled(given),
        pod=pod,
        life=life,
    )


def _pre_allocation(given: ReservationObject, pod: PodInfo) -> PreAllocation | None:
    spec = given.spec
    if not spec.pre_allocation:
        return None
    policy = spec.pre_allocation_policy or PreAllocationSpec()
    is_required = (pod.metadata.labels or {}).get(LABEL_PRE_ALLOCATION_REQUIRED) == "true"
    return PreAllocation(policy.mode == _CLUSTER, policy.enable_multiple, is_required)


def reserve_pod(given: ReservationObject) -> PodInfo:
    """The pod that a reservation keeps the place of; it has no node, and no name of its own."""
    metadata, template = given.metadata, given.spec.template
    described = template.metadata if template is not None else AnnotatedMeta()
    spec = template.spec if template is not None else SchedulingSpec()
    labels = metadata.labels or {}
    priority = spec.priority
    if priority is None:
        priority = whole_number(labels.get(LABEL_PRIORITY, ""))
    meta = AnnotatedMeta(
        name=metadata.uid,
        namespace=described.namespace or _DEFAULT_NAMESPACE,
        uid=metadata.uid,
        creation_timestamp=metadata.creation_timestamp,
        deletion_timestamp=metadata.deletion_timestamp,
        labels={**(described.labels or {}), **labels},
        annotations=annotations_of_room(
            metadata.annotations or NO_ANNOTATIONS, described.annotations or NO_ANNOTATIONS
        ),
    )
    spec = msgspec.structs.replace(
        spec,
        node_name="",
        priority=HIGHEST_PRIORITY if priority is None else priority,
        scheduling_gates=None,
    )
    return PodInfo(meta, spec)


read_annotations(ANNOTATION_RESERVATION_RESTRICTED_OPTIONS)


class _RestrictedOptions(msgspec.Struct, frozen=True):
    resources: list[str] | None = None


_OPTIONS = msgspec.json.Decoder(_RestrictedOptions | None)


def _restricted(given: ReservationObject, allocatable: frozenset[str]) -> frozenset[str]:
    """The resources that annotation names, of those that are reserved; all if it names none."""
    annotations = given.metadata.annotations
    text = (annotations or NO_ANNOTATIONS).get(ANNOTATION_RESERVATION_RESTRICTED_OPTIONS)
    if not text:
        return allocatable
    try:
        options = _OPTIONS.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        key = ANNOTATION_RESERVATION_RESTRICTED_OPTIONS
        raise ValueError(f"the annotation {key} cannot be read ({error})") from None
    named = frozenset(options.resources or ()) if options is not None else frozenset()
    return allocatable & named or allocatable


def _unscheduled(given: ReservationObject) -> str:
    for one in given.status.conditions or ():
        if one.type == "Scheduled" and one.status == "False":
            return one.message
    return ""
