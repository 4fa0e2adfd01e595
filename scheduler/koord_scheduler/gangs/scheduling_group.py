"""Kubernetes' own PodGroups (scheduling.k8s.io), which are off there by default. No IO.

Pods name theirs in ``spec.schedulingGroup``. Its gang policy is that of a gang of which bound pods
count, and of which a pod that does not fit holds up no other. v1alpha3 is as v1beta1; v1alpha2
differs in its reference to a Workload and in the words of its disruption mode.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from koord_kube.protocol.resources import Resource
from koord_kube.views.decode import decode_view
from koord_model.times import from_rfc3339

from koord_scheduler.gangs.pod_group import PodGroupMeta
from koord_scheduler.objects.annotations import decode_hook
from koord_scheduler.objects.pod import PodResourceClaim

SUFFIX = ".scheduling.k8s.io"
"""Ends the keys of these gangs: names of PodGroups of both kinds may be equal."""
_WHOLE, _SINGLE = "PodGroup", "Pod"


class GangPolicy(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Number of its pods that start together."""

    min_count: int = 0


class Policy(msgspec.Struct, frozen=True, gc=False):
    """One of both; with ``basic``, pods are placed one by one."""

    basic: dict[str, object] | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(msgspec.Struct, frozen=True, gc=False):
    """The label of nodes of which all pods get one value."""

    key: str = ""


class Constraints(msgspec.Struct, frozen=True, gc=False):
    """Constraints on its pods' nodes."""

    topology: list[TopologyConstraint] | None = None

    @property
    def problem(self) -> str:
        """Reason why they cannot be honoured."""
        found = self.topology or []
        if len(found) > 1:
            return f"spec.schedulingConstraints.topology has {len(found)} items; expected one"
        if any(not one.key for one in found):
            return "spec.schedulingConstraints.topology[0].key is empty; expected a node label"
        return ""


class DisruptionMode(msgspec.Struct, frozen=True, gc=False):
    """One of both; with ``all``, all its pods or none."""

    single: dict[str, object] | None = None
    all: dict[str, object] | None = None


class WorkloadRef(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The Workload, and the template in it, that it was made of."""

    workload_name: str = ""
    template_name: str = ""


class WorkloadTemplateRef(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The same in v1alpha2."""

    workload_name: str = ""
    pod_group_template_name: str = ""


class TemplateRef(msgspec.Struct, frozen=True, gc=False):
    """The template that a group of v1alpha2 was made of."""

    workload: WorkloadTemplateRef | None = None


class GroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Common part of PodGroups and CompositePodGroups."""

    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadRef | None = None
    scheduling_constraints: Constraints | None = None
    disruption_mode: DisruptionMode | str | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None

    @property
    def label(self) -> str:
        """The node label of which all its pods get one value; "" if none is asked for."""
        topology = self.scheduling_constraints and self.scheduling_constraints.topology
        return topology[0].key if topology else ""

    @property
    def is_disrupted_whole(self) -> bool:
        """True if its pods are preempted together."""
        mode = self.disruption_mode
        return mode == _WHOLE if isinstance(mode, str) or mode is None else mode.all is not None

    @property
    def common_problem(self) -> str:
        """Reason why it cannot be placed as it says."""
        constraints, mode = self.scheduling_constraints, self.disruption_mode
        if constraints is not None and constraints.problem:
            return constraints.problem
        if isinstance(mode, str) and mode not in (_WHOLE, _SINGLE):
            return f'spec.disruptionMode is "{mode}"; expected {_SINGLE} or {_WHOLE}'
        if isinstance(mode, DisruptionMode) and (mode.single is None) == (mode.all is None):
            return "spec.disruptionMode needs one of single and all"
        if self.preemption_policy not in (None, "", "Never", "PreemptLowerPriority"):
            given = self.preemption_policy
            return f'spec.preemptionPolicy is "{given}"; expected Never or PreemptLowerPriority'
        return ""


class SchedulingGroupSpec(GroupSpec, frozen=True, rename="camel"):
    """Requests of a PodGroup."""

    scheduling_policy: Policy = Policy()
    pod_group_template_ref: TemplateRef | None = None
    resource_claims: list[PodResourceClaim] | None = None

    @property
    def problem(self) -> str:
        """Reason why it cannot be placed as it says."""
        policy = self.scheduling_policy
        if (policy.basic is None) == (policy.gang is None):
            return "spec.schedulingPolicy needs one of basic and gang"
        if policy.gang is not None and policy.gang.min_count < 1:
            given = policy.gang.min_count
            return f"spec.schedulingPolicy.gang.minCount is {given}; expected at least 1"
        wrong = (_claim_problem(one) for one in self.resource_claims or ())
        return next(filter(None, wrong), "") or self.common_problem

    @property
    def workload(self) -> str:
        """The name of its Workload, "" if it names none."""
        old = self.pod_group_template_ref and self.pod_group_template_ref.workload
        named = self.workload_ref or old
        return named.workload_name if named else ""


def _claim_problem(pod_resource_claim: PodResourceClaim) -> str:
    if (pod_resource_claim.resource_claim_name is None) == (
        pod_resource_claim.resource_claim_template_name is None
    ):
        needs = "needs one of resourceClaimName and resourceClaimTemplateName"
        return f'spec.resourceClaims "{pod_resource_claim.name}" {needs}'
    return ""


class Condition(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One of its status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None


class GroupStatus(msgspec.Struct, frozen=True, gc=False):
    """Schedulers' status of it."""

    conditions: list[Condition] | None = None


class SchedulingGroupObject(msgspec.Struct, frozen=True):
    """A PodGroup of Kubernetes as the API has it."""

    metadata: PodGroupMeta = PodGroupMeta()
    spec: SchedulingGroupSpec = SchedulingGroupSpec()
    status: GroupStatus = GroupStatus()


class SchedulingGroup(NamedTuple):
    """A PodGroup, or what stands for it, of one version of the API."""

    resource: Resource
    key: str
    spec: SchedulingGroupSpec
    status: GroupStatus
    uid: str
    resource_version: str
    generation: int
    created: float


_DECODER = msgspec.json.Decoder(SchedulingGroupObject, dec_hook=decode_hook)


def scheduling_group_key(namespace: str, name: str) -> str:
    """The key of the gang of a group."""
    return f"{namespace}/{name}{SUFFIX}"


def read_scheduling_group(resource: Resource, raw: bytes) -> SchedulingGroup:
    """The PodGroup of Kubernetes in a JSON document of a version of the API.

    Raises:
        ValueError: it is not one.
    """
    given = decode_view(_DECODER, raw, "a valid PodGroup")
    metadata, created = given.metadata, given.metadata.creation_timestamp
    return SchedulingGroup(
        resource,
        scheduling_group_key(metadata.namespace, metadata.name),
        given.spec,
        given.status,
        metadata.uid,
        metadata.resource_version,
        metadata.generation,
        0.0 if created is None else from_rfc3339(created),
    )
