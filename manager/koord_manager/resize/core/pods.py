"""A pod as far as resizes need it, and why one is left alone. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
from koord_kube.views.decode import decode_view
from koord_kube.views.pod import ResourceRequirements
from koord_model.demand import amounts
from koord_model.qos import QoSClass, qos_class

from koord_manager.resize.core.desired import ResizableResources
from koord_manager.resize.core.policy import RESOURCES

_OOM_KILLED = "OOMKilled"
_PENDING, _IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
_PINNED = frozenset({QoSClass.LSR, QoSClass.LSE, QoSClass.SYSTEM})


@dataclass(frozen=True, slots=True)
class ResizePod:
    """A pod; ``restarts`` are (container, resource) whose resize restarts the container.

    ``kills`` are the times of the last out-of-memory kill, by container, of the epoch. ``refusal``
    is why the pod has to be left alone whatever is recommended, "" if it does not have to.
    """

    namespace: str
    name: str
    uid: str
    version: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    containers: Mapping[str, ResizableResources] = field(default_factory=dict)
    restarts: frozenset[tuple[str, str]] = frozenset()
    kills: Mapping[str, float] = field(default_factory=dict)
    refusal: str = ""


class _ResizeRule(msgspec.Struct):
    resource: str = msgspec.field(default="", name="resourceName")
    restart: str = msgspec.field(default="", name="restartPolicy")


class _Container(msgspec.Struct):
    name: str = ""
    resources: ResourceRequirements | None = None
    rules: list[_ResizeRule] | None = msgspec.field(default=None, name="resizePolicy")


class _Spec(msgspec.Struct):
    resources: ResourceRequirements | None = None
    containers: list[_Container] | None = None


class _Ended(msgspec.Struct):
    reason: str = ""
    finished: datetime | None = msgspec.field(default=None, name="finishedAt")


class _State(msgspec.Struct):
    terminated: _Ended | None = None


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
    version: str = msgspec.field(default="", name="resourceVersion")
    deleted: str | None = msgspec.field(default=None, name="deletionTimestamp")
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


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
    pod = decode_view(_DECODER, content, "a valid pod")
    containers = pod.spec.containers or ()
    return ResizePod(
        pod.metadata.namespace,
        pod.metadata.name,
        pod.metadata.uid,
        pod.metadata.version,
        pod.metadata.annotations or {},
        {container.name: _resources(container) for container in containers},
        frozenset(
            (container.name, rule.resource)
            for container in containers
            for rule in container.rules or ()
            if rule.restart == "RestartContainer"
        ),
        dict(_kills(pod.status)),
        _refusal(pod),
    )


def _resources(container: _Container) -> ResizableResources:
    given = container.resources or ResourceRequirements()
    counted = [
        {name: amount for name, amount in amounts(part).items() if name in RESOURCES}
        for part in (given.requests, given.limits)
    ]
    return ResizableResources(*counted)


def _kills(status: _Status) -> Iterator[tuple[str, float]]:
    for container in status.containers or ():
        for state in (container.last, container.state):
            ended = state.terminated if state else None
            if ended and ended.reason == _OOM_KILLED and ended.finished:
                yield container.name, ended.finished.timestamp()


def _refusal(pod: _Pod) -> str:
    meta, status = pod.metadata, pod.status
    if meta.deleted or status.phase != "Running":
        return "it is not running"
    qos = qos_class(meta.labels or {})
    if qos in _PINNED:
        return f"{qos} pods have CPUs of their own"
    if qos is QoSClass.BE or status.qos == "BestEffort":
        return "best-effort pods request no cpu and no memory"
    if pod.spec.resources is not None:
        return "it has resources of the pod as a whole"
    return _kubelet_refusal(status)


def _kubelet_refusal(status: _Status) -> str:
    # The API server takes exactly this for the sign of a kubelet that can resize.
    if not all(one.resources for one in status.containers or ()) or not status.containers:
        return "its kubelet does not report the resources of containers, so cannot resize them"
    for condition in status.conditions or ():
        if condition.status == "True" and condition.type in {_PENDING, _IN_PROGRESS}:
            why = f" ({condition.reason}: {condition.message})" if condition.reason else ""
            return f"an earlier resize is not done{why}"
    return ""
