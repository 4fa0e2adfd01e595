"""The parts of a pod's JSON that are looked at, read and checked at once. No IO.

It is stricter than the view in ``koord_kube``, which reads pods that an API server has accepted:
authors of new pods learn which field is missing or has the wrong type.
"""

from __future__ import annotations

from typing import Any

import msgspec
from koord_model.demand import Amounts, InitContainer, amounts, whole_pod
from koord_model.excerpt import excerpt
from koord_model.priority import PriorityClass, priority_class, priority_class_or_default
from koord_model.qos import KubeQoS
from koord_serving.admission.core.admission import Object

Quantities = dict[str, str | int | float]


class PodMetadata(msgspec.Struct):
    """A pod's name, labels and annotations."""

    name: str | None = None
    generated: str | None = msgspec.field(default=None, name="generateName")
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ContainerResources(msgspec.Struct):
    """Requests and limits of a container or a pod."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerDocument(msgspec.Struct):
    """A container, or an init container."""

    name: str
    resources: ContainerResources | None = None
    restart_policy: str | None = msgspec.field(default=None, name="restartPolicy")

    @property
    def beside(self) -> bool:
        """True if an init container stays and runs beside the others."""
        return self.restart_policy == "Always"


class _Term(msgspec.Struct):
    match_expressions: list[Any] | None = msgspec.field(default=None, name="matchExpressions")
    match_fields: list[Any] | None = msgspec.field(default=None, name="matchFields")


class _NodeSelector(msgspec.Struct):
    terms: list[_Term] | None = msgspec.field(default=None, name="nodeSelectorTerms")


class _NodeAffinity(msgspec.Struct):
    required: _NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _Affinity(msgspec.Struct):
    node: _NodeAffinity | None = msgspec.field(default=None, name="nodeAffinity")


class PodSpecDocument(msgspec.Struct):
    """A pod's specification."""

    containers: list[ContainerDocument]
    init_containers: list[ContainerDocument] | None = msgspec.field(
        default=None, name="initContainers"
    )
    resources: ContainerResources | None = None
    overhead: Quantities | None = None
    priority: int | None = None
    node_name: str | None = msgspec.field(default=None, name="nodeName")
    affinity: _Affinity | None = None


class PodDocument(msgspec.Struct):
    """A pod as it is before admission."""

    spec: PodSpecDocument
    metadata: PodMetadata = msgspec.field(default_factory=PodMetadata)

    @property
    def name(self) -> str:
        """Name of the pod; of one that is still to be named, the beginning of it."""
        return self.metadata.name or f"{self.metadata.generated or ''}*"

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return self.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations."""
        return self.metadata.annotations or {}

    @property
    def all_containers(self) -> list[ContainerDocument]:
        """Those that run, and those before them."""
        return [*(self.spec.init_containers or []), *self.spec.containers]

    def requests(self) -> Amounts:
        """Return the requests of the whole pod, as the scheduler calculates them."""
        inits = (
            InitContainer(_requests(container.resources), container.beside)
            for container in self.spec.init_containers or []
        )
        return whole_pod(
            [_requests(container.resources) for container in self.spec.containers],
            inits,
            _requests(self.spec.resources),
            amounts(self.spec.overhead),
        )

    def requested_class(self) -> PriorityClass:
        """The priority class it asks for by itself."""
        return priority_class(self.labels, self.spec.priority)

    def treated_class(self) -> PriorityClass:
        """The priority class it is treated as having."""
        resources = [
            *(container.resources for container in self.all_containers),
            self.spec.resources,
        ]
        asks = any(_asks(resource) for resource in resources)
        kube = KubeQoS.BURSTABLE if asks else KubeQoS.BEST_EFFORT
        return priority_class_or_default(self.labels, self.spec.priority, kube)


def read(given: Object) -> PodDocument:
    """The pod in a document.

    Raises:
        ValueError: a field has the wrong type; one line says which.
    """
    try:
        return msgspec.convert(given, PodDocument)
    except msgspec.ValidationError as error:
        raise ValueError(f"no pod: {error}") from None


def about(pod: PodDocument, namespace: str) -> str:
    """Return the beginning of lines about a pod."""
    return f"pod {excerpt(f'{namespace}/{pod.name}')}"


def _requests(given: ContainerResources | None) -> Amounts:
    return amounts(given.requests) if given else {}


def _asks(given: ContainerResources | None) -> bool:
    """True if it asks for CPU or memory, by Kubernetes' own calculation of quality classes."""
    if given is None:
        return False
    both = (amounts(given.requests), amounts(given.limits))
    return any(given.get(name, 0) > 0 for given in both for name in ("cpu", "memory"))
