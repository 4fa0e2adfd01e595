"""A pod as far as resizes need it, and why one is left alone. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from koord_kube.views.decode import decode_view
from koord_kube.views.metadata import OwnerReference
from koord_kube.views.pod import ContainerStateTerminated, ResourceRequirements
from koord_model.demand import amounts
from koord_model.keys import ANNOTATION_MIRROR
from koord_model.qos import QoSClass, qos_class

from koord_manager.recommendation.core.pods import workloads
from koord_manager.resize.core.desired import ResizableResources
from koord_manager.resize.core.policy import RESOURCES

ANNOTATION_RECORD = "analysis.koordinator.sh/pykoord-resized"
_OOM_KILLED = "OOMKilled"
_COMPLETED = "Completed"
_PENDING, _IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
_PINNED = frozenset({QoSClass.LSR, QoSClass.LSE, QoSClass.SYSTEM})


@dataclass(frozen=True, slots=True)
class ContainerFailure:
    """End of a container that was not planned; ``at`` is of the epoch."""

    container: str
    at: float
    ran_out_of_memory: bool


@dataclass(frozen=True, slots=True)
class ResizePod:
    """A pod; ``restarts`` are (container, resource) whose resize restarts the container.

    ``workloads`` are (kind, name) of what made it. ``record`` is the annotation of its last resize.
    ``refusal`` is why the pod has to be left alone whatever is recommended, ``pending`` why it has
    to be at present; "" if it does not have to.
    """

    namespace: str
    name: str
    uid: str = ""
    node: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    workloads: tuple[tuple[str, str], ...] = ()
    record: str = ""
    containers: Mapping[str, ResizableResources] = field(default_factory=dict)
    restarts: frozenset[tuple[str, str]] = frozenset()
    failures: tuple[ContainerFailure, ...] = ()
    refusal: str = ""
    pending: str = ""

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


class _ResizeRule(msgspec.Struct):
    resource: str = msgspec.field(default="", name="resourceName")
    restart: str = msgspec.field(default="", name="restartPolicy")


class _Container(msgspec.Struct):
    name: str = ""
    resources: ResourceRequirements | None = None
    rules: list[_ResizeRule] | None = msgspec.field(default=None, name="resizePolicy")


class _OperatingSystem(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct):
    node: str = msgspec.field(default="", name="nodeName")
    os: _OperatingSystem | None = None
    resources: ResourceRequirements | None = None
    containers: list[_Container] | None = None


class _State(msgspec.Struct):
    terminated: ContainerStateTerminated | None = None
    running: dict[str, Any] | None = None


class _ContainerStatus(msgspec.Struct):
    name: str = ""
    state: _State | None = None
    last: _State | None = msgspec.field(default=None, name="lastState")
    resources: ResourceRequirements | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    qos: str = msgspec.field(default="", name="qosClass")
    conditions: list[_Condition] | None = None
    containers: list[_ContainerStatus] | None = msgspec.field(
        default=None, name="containerStatuses"
    )


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    deleted: str | None = msgspec.field(default=None, name="deletionTimestamp")
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owners: list[OwnerReference] | None = msgspec.field(default=None, name="ownerReferences")


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_DECODER = msgspec.json.Decoder(_Pod)


def decode(content: bytes) -> ResizePod:
    """A pod's JSON; init containers are not resized.

    Raises:
        ValueError: it is not a pod.
    """
    return _read(decode_view(_DECODER, content, "a valid pod"))


def read(given: Mapping[str, Any]) -> ResizePod:
    """A pod's document; that of an admission request has no status, and perhaps no name.

    Raises:
        ValueError: it is not a pod.
    """
    try:
        return _read(msgspec.convert(given, _Pod))
    except msgspec.ValidationError as error:
        raise ValueError(f"is not a valid pod: {error}") from None


def _read(pod: _Pod) -> ResizePod:
    containers, meta = pod.spec.containers or (), pod.metadata
    return ResizePod(
        meta.namespace,
        meta.name,
        meta.uid,
        pod.spec.node,
        meta.labels or {},
        tuple(workloads(meta.labels or {}, meta.owners or ())),
        (meta.annotations or {}).get(ANNOTATION_RECORD, ""),
        {container.name: _resources(container) for container in containers},
        frozenset(
            (container.name, rule.resource)
            for container in containers
            for rule in container.rules or ()
            if rule.restart == "RestartContainer"
        ),
        tuple(_failures(pod.status)),
        _refusal(pod),
        _pending(pod),
    )


def _resources(container: _Container) -> ResizableResources:
    given = container.resources or ResourceRequirements()
    counted = [
        {name: amount for name, amount in amounts(part).items() if name in RESOURCES}
        for part in (given.requests, given.limits)
    ]
    return ResizableResources(*counted)


def _failures(status: _Status) -> Iterator[ContainerFailure]:
    for container in status.containers or ():
        for state in (container.last, container.state):
            ended = state.terminated if state else None
            if ended and ended.finished and ended.reason != _COMPLETED:
                killed = ended.reason == _OOM_KILLED
                yield ContainerFailure(container.name, ended.finished.timestamp(), killed)


def _refusal(pod: _Pod) -> str:
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or {}
    qos = qos_class(labels)
    if qos in _PINNED:
        return f"{qos} pods have CPUs of their own"
    if qos is QoSClass.BE or pod.status.qos == "BestEffort":
        return "best-effort pods request no cpu and no memory"
    if pod.spec.resources is not None:
        return "it has resources of the pod as a whole"
    if ANNOTATION_MIRROR in annotations:
        return "the API server resizes no static pods"
    if pod.spec.os and pod.spec.os.name == "windows":
        return "the API server resizes no Windows pods"
    return ""


def _pending(pod: _Pod) -> str:
    status = pod.status
    if pod.metadata.deleted or status.phase != "Running":
        return "it is not running"
    running = [
        container
        for container in status.containers or ()
        if container.state and container.state.running is not None
    ]
    # The API server takes exactly this for the sign of a kubelet that can resize.
    if not running or running[0].resources is None:
        return "its kubelet does not report the resources of containers, so cannot resize them"
    for condition in status.conditions or ():
        if condition.status == "True" and condition.type in {_PENDING, _IN_PROGRESS}:
            why = f" ({condition.reason}: {condition.message})" if condition.reason else ""
            return f"an earlier resize is not done{why}"
    return ""
