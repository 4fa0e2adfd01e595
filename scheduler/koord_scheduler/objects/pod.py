"""A Pod as the scheduler reads it: in one pass, and only what decides where it runs. No IO.

What is compiled once for each class of equal pods (affinity, selectors) stays as the API
has it until then.
"""

from __future__ import annotations

from typing import Any

import msgspec
from koord_kube.views.decode import decode_view
from koord_kube.views.pod import Quantities, ResourceRequirements

from koord_scheduler.objects.annotations import decode_hook
from koord_scheduler.objects.metadata import AnnotatedMeta
from koord_scheduler.objects.pod_volume import PodVolume

Document = dict[str, Any]

DEFAULT_SCHEDULER = "default-scheduler"
"""Scheduler of pods that name none."""


class ContainerPort(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A port of a container; ``host_port`` 0 takes none of the node's."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class RestartRule(msgspec.Struct, frozen=True, gc=False):
    """Effect of a container's end on the pod."""

    action: str = ""


class SchedulingContainer(msgspec.Struct, frozen=True, rename="camel"):
    """A container, or an init container."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] | None = None
    ports: list[ContainerPort] | None = None

    @property
    def is_sidecar(self) -> bool:
        """True if an init container stays and runs beside the others."""
        return self.restart_policy == "Always"


class Toleration(msgspec.Struct, frozen=True, gc=False):
    """Taints that a pod bears; "" for ``key`` or ``effect`` means any."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class TopologySpreadConstraint(msgspec.Struct, frozen=True, rename="camel"):
    """Even spread of pods over the domains of a label of nodes."""

    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: Document | None = None
    match_label_keys: list[str] | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class SchedulingGate(msgspec.Struct, frozen=True, gc=False):
    """Gate that has to be removed from a pod before it is placed."""

    name: str = ""


class PodResourceClaim(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A claim of a pod: by its name, or made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Specification of a pod, and its conditions for nodes."""

    node_name: str = ""
    scheduler_name: str = DEFAULT_SCHEDULER
    scheduling_gates: list[SchedulingGate] | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    containers: list[SchedulingContainer] | None = None
    init_containers: list[SchedulingContainer] | None = None
    resources: ResourceRequirements | None = None
    overhead: Quantities | None = None
    node_selector: dict[str, str] | None = None
    affinity: Document | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    volumes: list[PodVolume] | None = None
    host_network: bool = False
    host_users: bool | None = None
    resource_claims: list[PodResourceClaim] | None = None
    scheduling_group: Document | None = None
    workload_ref: Document | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Resources of a running container, which differ from its requests during a resize."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities | None = None


class PodCondition(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One of the pod's conditions."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodResourceClaimStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The claim that was made from a template; ``None``: none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """State of a pod."""

    phase: str = ""
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None


class PodInfo(msgspec.Struct, frozen=True):
    """A pod, waiting or placed."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: SchedulingSpec = SchedulingSpec()
    status: PodStatus = PodStatus()

    @property
    def is_preempted(self) -> bool:
        """True if it is terminating because a scheduler gave its place to another pod."""
        if self.metadata.deletion_timestamp is None:
            return False
        for one in self.status.conditions or ():
            if one.type == "DisruptionTarget":
                return one.status == "True" and one.reason == "PreemptionByScheduler"
        return False


_DECODER = msgspec.json.Decoder(PodInfo, dec_hook=decode_hook)


def read_pod(text: bytes) -> PodInfo:
    """The pod in a JSON document.

    Raises:
        ValueError: it is not a Pod.
    """
    return decode_view(_DECODER, text, "a valid Pod")
