"""Class of a pod: all that decides where it runs; equal pods are one class. No IO."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from koord_model.demand import Amounts
from koord_model.label_selector import LabelSelector

from koord_scheduler.objects.node_selector import (
    PreferredNodes,
    RequiredNodes,
    preferred_nodes,
    required_nodes,
)
from koord_scheduler.objects.pod import PodInfo, SchedulingContainer, Toleration
from koord_scheduler.objects.pod_affinity import PodAffinity, pod_affinity
from koord_scheduler.objects.requests import PodRequests, pending_requests
from koord_scheduler.objects.spread import SpreadConstraint, spread_constraint
from koord_scheduler.state.feature_state import FeatureState
from koord_scheduler.state.pod_labels import PodLabels, pod_labels
from koord_scheduler.state.pod_parts import NO_PARTS, PodPart, PodParts
from koord_scheduler.state.ports import ANY_ADDRESS, HostPort
from koord_scheduler.state.workload_selectors import (
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    WorkloadReference,
)

T = TypeVar("T", bound=Hashable)

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
    pods, where that decides how they are spread. ``parts`` are those of features.
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
    spread: tuple[SpreadConstraint, ...]
    affinity: PodAffinity
    controller: WorkloadReference | None = None
    parts: PodParts = NO_PARTS

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Computed once: classes are looked up for each pod."""
        return hash(tuple(getattr(self, name) for name in self.__match_args__))

    def selectors(self) -> Iterator[LabelSelector | None]:
        """Selectors by which it selects other pods, or itself among them."""
        preferred = (term for _, term in self.affinity.preferred)
        for term in (*self.affinity.required, *self.affinity.anti, *preferred):
            yield term.selector
        for constraint in self.spread:
            yield constraint.selector

    def of(self, key: PodPart[T]) -> T:
        """A feature's part of it."""
        found: T = self.parts.by_key.get(key, key.nothing)
        return found

    def with_part(self, key: PodPart[T], value: T) -> PodClass:
        """The same with another part of this key."""
        return replace(self, parts=self.parts.with_part(key, value))

    @property
    def requests(self) -> PodRequests:
        """Requests of a pod of the class."""
        amounts: Amounts = dict(self.amounts)
        return PodRequests(amounts, self.scored_cpu, self.scored_memory)


def pod_class(pod: PodInfo, features: Iterable[FeatureState] = ()) -> PodClass:
    """The class of a pod that waits; fields that no feature looks at do not split classes.

    Raises:
        ValueError: a quantity or a selector is not one.
    """
    spec = pod.spec
    requests = pending_requests(pod)
    parts = (part for feature in features for part in feature.class_parts(pod, requests))
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
        tuple(map(spread_constraint, spec.topology_spread_constraints or ())),
        pod_affinity(pod.metadata.namespace, spec.affinity),
        spread_controller(pod),
        PodParts(parts),
    )


def spread_controller(pod: PodInfo) -> WorkloadReference | None:
    """The controller with whose pods a pod is spread, if it says nothing about that itself."""
    if pod.spec.topology_spread_constraints:
        return None
    owners = pod.metadata.owner_references or ()
    controller = next((owner for owner in owners if owner.controller), None)
    if controller is None or (controller.api_version, controller.kind) not in _SELECTING:
        return None
    return WorkloadReference(controller.kind, f"{pod.metadata.namespace}/{controller.name}")


def host_ports(pod: PodInfo) -> tuple[HostPort, ...]:
    """The ports of its node that a pod takes: those of containers that run to its end."""
    spec = pod.spec
    sidecars = (container for container in spec.init_containers or () if container.is_sidecar)
    return tuple(sorted(set(_host_ports([*sidecars, *(spec.containers or ())]))))


def _host_ports(containers: Iterable[SchedulingContainer]) -> Iterable[HostPort]:
    for container in containers:
        for port in container.ports or ():
            if port.host_port > 0:
                yield HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
