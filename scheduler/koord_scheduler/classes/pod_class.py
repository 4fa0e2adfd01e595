"""What decides where a pod runs; pods in which it is equal are one class. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from koord_model.demand import Amounts
from koord_model.label_selector import LabelSelector

from koord_scheduler.classes.special_needs import required_features, unsupported_fields
from koord_scheduler.objects.metadata import NO_ANNOTATIONS
from koord_scheduler.objects.node_selector import (
    PreferredNodes,
    RequiredNodes,
    preferred_nodes,
    required_nodes,
)
from koord_scheduler.objects.pod import PodInfo, SchedulingContainer, Toleration
from koord_scheduler.objects.pod_affinity import PodAffinity, pod_affinity
from koord_scheduler.objects.requests import PodRequests, pending_requests
from koord_scheduler.objects.scheduling_hint import NO_HINT, PodHint, scheduling_hint
from koord_scheduler.objects.spread import SpreadConstraint, spread_constraint
from koord_scheduler.plugins.device_share.device_needs import (
    NO_DEVICE_NEEDS,
    PodDeviceNeeds,
    asks_for_devices,
    pod_device_needs,
)
from koord_scheduler.plugins.dynamic_resources.extended_resources import (
    ContainerRequest,
    container_requests,
    may_be_backed,
)
from koord_scheduler.plugins.dynamic_resources.pod_claims import NO_CLAIMS, PodClaims, pod_claims
from koord_scheduler.plugins.load_aware.pod_load import NO_LOAD, PodLoad, pod_load
from koord_scheduler.plugins.node_numa_resource.pod_requirements import (
    NO_REQUIREMENTS,
    NUMARequirements,
    numa_requirements,
)
from koord_scheduler.plugins.reservation.owners import pod_owners
from koord_scheduler.plugins.reservation.pod_needs import (
    NO_RESERVATION_NEEDS,
    ReservationNeeds,
    reservation_needs,
)
from koord_scheduler.plugins.volumes.usage import NO_VOLUMES, VolumeUsage, volume_usage
from koord_scheduler.state.pod_labels import PodLabels, pod_labels
from koord_scheduler.state.ports import ANY_ADDRESS, HostPort
from koord_scheduler.state.workload_selectors import (
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    WorkloadReference,
)

_SELECTING = {
    ("v1", REPLICATION_CONTROLLER),
    ("apps/v1", REPLICA_SET),
    ("apps/v1", STATEFUL_SET),
}
"""Controllers whose selectors say which pods belong together."""


@dataclass(frozen=True)
class PodClass:
    """Pods that go to the same node as long as no pod is placed in between.

    ``labels`` are those by which somebody selects pods.
    ``spread`` are its topology spread constraints, of both kinds; ``controller`` is what made its
    pods, where that decides how they are spread. ``images`` has the image of each container, with
    its tag; ``containers`` is how many there are, init containers included. ``features`` are those
    that it needs of kubelets, ``unsupported`` says what cannot be done here. Pods with claims are a
    class each. ``extended`` says which containers ask for extended resources, which may be devices.
    ``load`` decides how much its pods are expected to use.
    ``numa`` is what it says of its CPUs and NUMA nodes, ``hint`` on which nodes it should run,
    ``devices`` what it needs of the devices that Devices list, ``reservation`` what of
    reservations.
    """

    labels: PodLabels
    amounts: tuple[tuple[str, int], ...]
    scored_cpu: int
    scored_memory: int
    node_name: str
    required: RequiredNodes
    preferred: PreferredNodes
    tolerations: tuple[Toleration, ...]
    ports: tuple[HostPort, ...]
    images: tuple[str, ...]
    containers: int
    spread: tuple[SpreadConstraint, ...]
    affinity: PodAffinity
    controller: WorkloadReference | None = None
    volumes: VolumeUsage = NO_VOLUMES
    features: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    claims: PodClaims = NO_CLAIMS
    extended: tuple[ContainerRequest, ...] = ()
    load: PodLoad = NO_LOAD
    numa: NUMARequirements = NO_REQUIREMENTS
    hint: PodHint = NO_HINT
    devices: PodDeviceNeeds = NO_DEVICE_NEEDS
    reservation: ReservationNeeds = NO_RESERVATION_NEEDS

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Computed once: classes are looked up for each pod."""
        return hash(tuple(getattr(self, name) for name in self.__match_args__))

    def selectors(self) -> Iterator[LabelSelector | None]:
        """By what it selects other pods, or itself among them."""
        preferred = (term for _, term in self.affinity.preferred)
        for term in (*self.affinity.required, *self.affinity.anti, *preferred):
            yield term.selector
        for one in self.spread:
            yield one.selector

    @cached_property
    def extended_resources(self) -> tuple[str, ...]:
        """The extended resources that it asks for."""
        return tuple(name for name, amount in self.amounts if amount and may_be_backed(name))

    @property
    def requests(self) -> PodRequests:
        """What a pod of the class asks for."""
        amounts: Amounts = dict(self.amounts)
        return PodRequests(amounts, self.scored_cpu, self.scored_memory)


def pod_class(
    pod: PodInfo,
    *,
    has_load: bool = True,
    has_numa: bool = True,
    has_devices: bool = True,
    has_reservations: bool = True,
    has_groups: bool = False,
) -> PodClass:
    """The class of a pod that waits; what no plugin looks at does not split classes.

    Raises:
        ValueError: a quantity or a selector is not one.
    """
    spec = pod.spec
    requests = pending_requests(pod)
    containers = [*(spec.init_containers or ()), *(spec.containers or ())]
    mounted = [one.image.reference for one in spec.volumes or () if one.image is not None]
    images = [*(one.image for one in containers), *filter(None, mounted)]
    return PodClass(
        pod_labels(pod.metadata.namespace, pod.metadata.labels),
        tuple(sorted(requests.amounts.items())),
        requests.scored_cpu,
        requests.scored_memory,
        spec.node_name,
        required_nodes(spec.node_selector, spec.affinity),
        preferred_nodes(spec.affinity),
        tuple(spec.tolerations or ()),
        host_ports(pod),
        tuple(sorted(map(_with_tag, images))),
        len(containers),
        tuple(map(spread_constraint, spec.topology_spread_constraints or ())),
        pod_affinity(pod.metadata.namespace, spec.affinity),
        spread_controller(pod),
        volume_usage(pod),
        required_features(pod),
        unsupported_fields(spec, has_groups=has_groups),
        pod_claims(pod),
        container_requests(pod),
        pod_load(pod, requests) if has_load else NO_LOAD,
        _numa_requirements(pod) if has_numa else NO_REQUIREMENTS,
        scheduling_hint(pod),
        _device_needs(pod, requests) if has_devices else NO_DEVICE_NEEDS,
        _reservation_needs(pod) if has_reservations else NO_RESERVATION_NEEDS,
    )


def _reservation_needs(pod: PodInfo) -> ReservationNeeds:
    metadata = pod.metadata
    annotations = (metadata.annotations or NO_ANNOTATIONS).by_key()
    owners = pod_owners(metadata.owner_references or ())
    return reservation_needs(annotations, metadata.labels or {}, owners)


def _numa_requirements(pod: PodInfo) -> NUMARequirements:
    metadata = pod.metadata
    annotations = (metadata.annotations or NO_ANNOTATIONS).by_key()
    return numa_requirements(annotations, metadata.labels or {}, pod.spec.priority)


def _device_needs(pod: PodInfo, requests: PodRequests) -> PodDeviceNeeds:
    metadata = pod.metadata
    if not asks_for_devices(requests.amounts):
        return NO_DEVICE_NEEDS
    annotations = (metadata.annotations or NO_ANNOTATIONS).by_key()
    return pod_device_needs(requests.amounts, annotations, metadata.labels or {})


def spread_controller(pod: PodInfo) -> WorkloadReference | None:
    """The controller with whose pods a pod is spread, if it says nothing about that itself."""
    if pod.spec.topology_spread_constraints:
        return None
    owners = pod.metadata.owner_references or ()
    one = next((one for one in owners if one.controller), None)
    if one is None or (one.api_version, one.kind) not in _SELECTING:
        return None
    return WorkloadReference(one.kind, f"{pod.metadata.namespace}/{one.name}")


def host_ports(pod: PodInfo) -> tuple[HostPort, ...]:
    """The ports of its node that a pod takes: those of containers that run to its end."""
    spec = pod.spec
    sidecars = (one for one in spec.init_containers or () if one.is_sidecar)
    return tuple(sorted(set(_host_ports([*sidecars, *(spec.containers or ())]))))


def _host_ports(containers: Iterable[SchedulingContainer]) -> Iterable[HostPort]:
    for container in containers:
        for one in container.ports or ():
            if one.host_port > 0:
                yield HostPort(one.protocol or "TCP", one.host_port, one.host_ip or ANY_ADDRESS)


def _with_tag(image: str) -> str:
    """The name of an image as the CRI has it: with a tag, "latest" if none is given."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
