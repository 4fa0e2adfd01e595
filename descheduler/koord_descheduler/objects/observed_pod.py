"""A Pod as the descheduler reads it. No IO.

Copies share a ``PodTraits``: what differs is some hundred bytes each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec
from koord_kube.views.decode import decode_view
from koord_kube.views.metadata import OwnerReference
from koord_kube.views.pod import ContainerSpec, PodSpec
from koord_kube.views.pod_qos import kube_qos_of
from koord_model.priority import PriorityClass, priority_class, priority_class_or_default
from koord_model.qos import KubeQoS, QoSClass, qos_class
from koord_model.times import from_rfc3339
from koord_scheduler.objects.annotations import Annotations, decode_hook
from koord_scheduler.objects.pod import Toleration

_MOST_TEMPLATES = 1 << 14


_TEMPLATE_HASH = "pod-template-hash"


class WorkloadName(NamedTuple):
    """The controller whose replicas count: of a Deployment's ReplicaSets the Deployment."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class _EmptyDir(msgspec.Struct, frozen=True, gc=False):
    pass


class _Claim(msgspec.Struct, frozen=True, rename="camel", gc=False):
    claim_name: str = ""


class Volume(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A volume of a pod, as far as it keeps the pod where it is."""

    empty_dir: _EmptyDir | None = None
    host_path: _EmptyDir | None = None
    persistent_volume_claim: _Claim | None = None


class _Container(ContainerSpec):
    image: str = ""


class _Spec(PodSpec):
    containers: list[_Container] | None = None  # type: ignore[assignment] # they have more
    priority_class_name: str = msgspec.field(default="", name="priorityClassName")
    scheduler_name: str = msgspec.field(default="default-scheduler", name="schedulerName")
    volumes: list[Volume] | None = None
    tolerations: list[Toleration] | None = None
    resource_claims: list[_EmptyDir] | None = msgspec.field(default=None, name="resourceClaims")
    grace_seconds: int | None = msgspec.field(default=None, name="terminationGracePeriodSeconds")


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: Annotations | None = None
    owner_references: list[OwnerReference] | None = None


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    reason: str = ""


class _Terminated(msgspec.Struct, frozen=True, rename="camel", gc=False):
    reason: str = ""
    exit_code: int = 0


class _State(msgspec.Struct, frozen=True, gc=False):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    restart_count: int = 0
    state: _State = _State()


class _Condition(msgspec.Struct, frozen=True, rename="camel", gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    start_time: str | None = None
    qos_class: str = ""
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    ephemeral_container_statuses: list[_ContainerStatus] | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = _Status()


class PodTraits(msgspec.Struct, frozen=True, dict=True):
    """All of a pod that its copies share; ``images`` are those of its containers, in order.

    ``annotations`` are those that some feature reads. ``claims`` are the names of
    PersistentVolumeClaims, ``is_local`` is true of pods with an emptyDir or a hostPath.
    """

    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owners: tuple[OwnerReference, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    scheduler_name: str = ""
    kube_qos: KubeQoS = KubeQoS.BURSTABLE
    images: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    is_local: bool = False
    has_resource_claims: bool = False
    tolerations: tuple[Toleration, ...] = ()
    grace_seconds: int | None = None

    @cached_property
    def controller(self) -> OwnerReference | None:
        """The owner that makes it anew."""
        return next((owner for owner in self.owners if owner.controller), None)

    @cached_property
    def workload(self) -> WorkloadName | None:
        """The workload that it is a copy of, by the names that Deployments give ReplicaSets."""
        owner = self.controller
        if owner is None:
            return None
        suffix = f"-{self.labels.get(_TEMPLATE_HASH, '')}"
        if owner.kind == "ReplicaSet" and len(suffix) > 1 and owner.name.endswith(suffix):
            name = owner.name.removesuffix(suffix)
            return WorkloadName(owner.api_version, "Deployment", self.namespace, name)
        return WorkloadName(owner.api_version, owner.kind, self.namespace, owner.name)

    @cached_property
    def qos(self) -> QoSClass:
        """Koordinator's quality class, as its label says."""
        return qos_class(self.labels)

    @cached_property
    def priority_class(self) -> PriorityClass:
        """Koordinator's priority class, as its label or its priority says."""
        return priority_class(self.labels, self.priority)

    @cached_property
    def treated_as(self) -> PriorityClass:
        """The class that Koordinator treats it as having, where it asks for none."""
        return priority_class_or_default(self.labels, self.priority, self.kube_qos)

    @cached_property
    def is_prod(self) -> bool:
        """True if it is treated as of production."""
        return self.treated_as is PriorityClass.PROD


class ContainerState(NamedTuple):
    """State of a container: why it waits or ended ("" for both: it runs), and its restarts."""

    kind: str
    """"init", "ephemeral" or "": one of those beside them."""
    waiting: str
    terminated: str
    exit_code: int | None
    restarts: int


class ConditionState(NamedTuple):
    """A condition of a pod; ``since`` is in seconds since the epoch, 0 where it does not say."""

    type: str
    status: str
    reason: str
    since: float


class ObservedPod(NamedTuple):
    """A pod; ``key`` is namespace/name, times are in seconds since the epoch.

    ``started`` is ``None`` before the kubelet knows it, ``deleted`` unless it is terminating.
    ``containers`` are those that restarted, wait or ended; all others run as they should.
    """

    key: str
    uid: str
    node: str
    template: PodTraits
    created: float
    started: float | None
    deleted: float | None
    phase: str
    reason: str
    conditions: tuple[ConditionState, ...]
    containers: tuple[ContainerState, ...]

    @property
    def namespace(self) -> str:
        """The namespace."""
        return self.template.namespace

    @property
    def name(self) -> str:
        """The name, which is unique in its namespace."""
        return self.key.partition("/")[2]

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels."""
        return self.template.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """Those annotations that some feature reads."""
        return self.template.annotations

    @property
    def owner(self) -> str:
        """The uid of its controller; "" if nothing makes it anew."""
        controller = self.template.controller
        return controller.uid if controller is not None else ""

    @property
    def has_ended(self) -> bool:
        """True if it runs no more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_ready(self) -> bool:
        """True if it serves."""
        return ("Ready", "True") in ((found.type, found.status) for found in self.conditions)

    @property
    def scheduled(self) -> float:
        """Time when it got its node, or was created if its conditions do not say."""
        times = (found.since for found in self.conditions if found.type == "PodScheduled")
        return next(filter(None, times), self.created)


_DECODER = msgspec.json.Decoder(_Pod, dec_hook=decode_hook)


class ObservedPodReader:
    """Reads pods; equal parts of them are kept once."""

    def __init__(self) -> None:
        self._templates: dict[bytes, PodTraits] = {}
        self._conditions: dict[tuple[ConditionState, ...], tuple[ConditionState, ...]] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def read(self, raw: bytes) -> ObservedPod:
        """The pod in a JSON document.

        Raises:
            ValueError: it is not a Pod, or a time in it is not one.
        """
        pod = decode_view(_DECODER, raw, "a valid Pod")
        metadata, status = pod.metadata, pod.status
        return ObservedPod(
            f"{metadata.namespace}/{metadata.name}",
            metadata.uid,
            pod.spec.node,
            self._template(pod),
            _seconds(metadata.creation_timestamp) or 0.0,
            _seconds(status.start_time),
            _seconds(metadata.deletion_timestamp),
            status.phase,
            status.reason,
            self._shared_conditions(status.conditions or ()),
            tuple(_container_states(status)),
        )

    def _template(self, pod: _Pod) -> PodTraits:
        made = _template(pod)
        key = self._encode(made)
        if len(self._templates) >= _MOST_TEMPLATES:
            self._templates.clear()
        return self._templates.setdefault(key, made)

    def _shared_conditions(self, given: list[_Condition] | tuple[()]) -> tuple[ConditionState, ...]:
        made = tuple(
            ConditionState(
                condition.type,
                condition.status,
                condition.reason,
                _seconds(condition.last_transition_time) or 0.0,
            )
            for condition in given
        )
        if len(self._conditions) >= _MOST_TEMPLATES:
            self._conditions.clear()
        return self._conditions.setdefault(made, made)


def _template(pod: _Pod) -> PodTraits:
    metadata, spec = pod.metadata, pod.spec
    volumes = spec.volumes or ()
    return PodTraits(
        metadata.namespace,
        metadata.labels or {},
        dict(metadata.annotations or {}),
        tuple(metadata.owner_references or ()),
        spec.priority,
        spec.priority_class_name,
        spec.scheduler_name,
        kube_qos_of(pod.status.qos_class, spec),
        tuple(container.image for container in spec.containers or ()),
        tuple(
            volume.persistent_volume_claim.claim_name
            for volume in volumes
            if volume.persistent_volume_claim is not None
        ),
        any(volume.empty_dir is not None or volume.host_path is not None for volume in volumes),
        bool(spec.resource_claims),
        tuple(spec.tolerations or ()),
        spec.grace_seconds,
    )


def _container_states(status: _Status) -> Iterator[ContainerState]:
    for kind, statuses in (
        ("", status.container_statuses),
        ("init", status.init_container_statuses),
        ("ephemeral", status.ephemeral_container_statuses),
    ):
        for container in statuses or ():
            waiting, terminated = container.state.waiting, container.state.terminated
            if waiting is None and terminated is None and not container.restart_count:
                continue
            yield ContainerState(
                kind,
                waiting.reason if waiting is not None else "",
                terminated.reason if terminated is not None else "",
                terminated.exit_code if terminated is not None else None,
                container.restart_count,
            )


def _seconds(time: str | None) -> float | None:
    return None if time is None else from_rfc3339(time)
