"""The kubelet's pod list, read into records: only the fields that are used.

What containers are limited to is read from the specification: the status says what the runtime
has, which may be what hooks made of it. While the kubelet has not accepted a resize, the
specification is ahead of it, and the record says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec
from koord_host.knobs.layout import Layout
from koord_kube.views.metadata import OwnerReference
from koord_kube.views.pod import ContainerSpec, PodSpec, ResourceRequirements
from koord_kube.views.pod_qos import kube_qos_of
from koord_model.batch_spec import batch_spec
from koord_model.demand import Amounts, Demand, InitContainer, amounts, requested, whole_pod
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC
from koord_model.pod import Container, Pod
from koord_model.quantity import milli
from koord_model.resources import LinuxResources

from koordlet.states_informer.state.pod_inventory import PodRecord


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int | None = None
    deleted: str | None = msgspec.field(default=None, name="deletionTimestamp")
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owners: list[OwnerReference] | None = msgspec.field(default=None, name="ownerReferences")


class _Spec(PodSpec):
    priority_name: str | None = msgspec.field(default=None, name="priorityClassName")
    grace: int | None = msgspec.field(default=None, name="terminationGracePeriodSeconds")
    runtime_class: str | None = msgspec.field(default=None, name="runtimeClassName")
    host_network: bool | None = msgspec.field(default=None, name="hostNetwork")


class _State(msgspec.Struct):
    running: dict[str, object] | None = None


class _ContainerStatus(msgspec.Struct):
    name: str = ""
    container_id: str | None = msgspec.field(default=None, name="containerID")
    state: _State | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] | None = None
    resize: str | None = None
    observed: int | None = msgspec.field(default=None, name="observedGeneration")
    started: datetime | None = msgspec.field(default=None, name="startTime")
    qos_class: str = msgspec.field(default="", name="qosClass")
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    containers: list[_ContainerStatus] | None = msgspec.field(
        default=None, name="containerStatuses"
    )
    init_containers: list[_ContainerStatus] | None = msgspec.field(
        default=None, name="initContainerStatuses"
    )


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _PodList(msgspec.Struct):
    items: list[_Pod] | msgspec.UnsetType | None = msgspec.UNSET


_DECODER = msgspec.json.Decoder(_PodList)
_ENDED = {"Succeeded", "Failed"}
_RESIZE_PENDING = "PodResizePending"
_NOT_ACCEPTED = {"Proposed", "Deferred", "Infeasible"}
"""Of a resize, as the status of Kubernetes before 1.33 says it."""
_MIRROR = "kubernetes.io/config.mirror"
"""The API server's mark of a static pod; its value is the UID that the kubelet knows."""
_PERIOD, _LEAST_QUOTA = 100_000, 1000  # µs; the kubelet's, unless a gate of it is open


def parse(text: bytes, layout: Layout) -> tuple[PodRecord, ...]:
    """The pods of a v1 PodList that have not ended, with their running containers.

    Raises:
        ValueError: it is not a PodList.
    """
    try:
        listed = _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"is not a pod list: {error}") from None
    if listed.items is msgspec.UNSET:
        raise ValueError("is not a pod list: it has no items")
    items = listed.items or ()
    return tuple(_record(pod, layout) for pod in items if pod.status.phase not in _ENDED)


def _record(listed: _Pod, layout: Layout) -> PodRecord:
    meta, spec, status = listed.metadata, listed.spec, listed.status
    uid = (meta.annotations or {}).get(_MIRROR) or meta.uid
    pod = Pod(
        name=meta.name,
        namespace=meta.namespace,
        uid=uid,
        labels=meta.labels or {},
        annotations=_with_batch_spec(meta.annotations or {}, spec),
        cgroup_parent=layout.pod_group(kube_qos_of(status.qos_class, spec), uid),
        runtime_class=spec.runtime_class or "",
        ip="" if spec.host_network else status.pod_ip or "",
        resources=LinuxResources(cpu_quota=_pod_quota(spec)),
    )
    running = [
        container_status
        for container_status in (*(status.init_containers or ()), *(status.containers or ()))
        if container_status.container_id
        and container_status.state is not None
        and container_status.state.running is not None
    ]
    specs = {
        container.name: container
        for container in (*(spec.init_containers or ()), *(spec.containers or ()))
    }
    containers, runtime = {}, ""
    for container in running:
        prefix, ident = _split(container.container_id or "")
        limits = LinuxResources(
            cpu_quota=_quota(specs.get(container.name, ContainerSpec()).resources)
        )
        containers[ident] = Container(pod, container.name, ident, resources=limits)
        runtime = runtime or prefix
    return PodRecord(pod, containers, runtime, _demand(listed), _resize_pending(listed))


def _resize_pending(listed: _Pod) -> bool:
    """True if the specification asks for what the kubelet has not accepted."""
    meta, status = listed.metadata, listed.status
    if meta.generation and status.observed and status.observed < meta.generation:
        return True
    return status.resize in _NOT_ACCEPTED or any(
        condition.type == _RESIZE_PENDING and condition.status == "True"
        for condition in status.conditions or ()
    )


def _demand(listed: _Pod) -> Demand:
    spec, status = listed.spec, listed.status
    containers, inits = spec.containers or [], spec.init_containers or []
    requests = {container.name: _requests(container.resources) for container in containers}
    limits = {container.name: _limits(container.resources) for container in containers}
    init_requests = {init.name: _requests(init.resources) for init in inits}
    overhead = amounts(spec.overhead)
    return Demand(
        priority=spec.priority,
        phase=status.phase,
        terminating=listed.metadata.deleted is not None,
        started=status.started.timestamp() if status.started else 0.0,
        requests=whole_pod(
            requests.values(),
            [InitContainer(init_requests[init.name], init.is_sidecar) for init in inits],
            _requests(spec.resources),
            overhead,
        ),
        limits=whole_pod(
            limits.values(),
            [InitContainer(_limits(init.resources), init.is_sidecar) for init in inits],
            _limits(spec.resources),
            overhead,
        ),
        container_requests=requests,
        container_limits=limits,
        init_requests=init_requests,
        priority_name=spec.priority_name or "",
        controller=_controller(listed.metadata),
        grace_seconds=spec.grace,
    )


def _controller(meta: _Metadata) -> str:
    return next((owner.kind for owner in meta.owners or () if owner.controller), "")


def _requests(resources: ResourceRequirements | None) -> Amounts:
    return requested(resources.requests, resources.limits) if resources else {}


def _limits(resources: ResourceRequirements | None) -> Amounts:
    return amounts(resources.limits if resources else None)


def _pod_quota(spec: _Spec) -> int | None:
    """The quota of the whole pod, as the kubelet computes it; none if a container has none."""
    if own := _quota(spec.resources):
        return own
    inits = spec.init_containers or []
    beside = [init for init in inits if init.is_sidecar]
    together = [_quota(container.resources) for container in (*(spec.containers or ()), *beside)]
    one_by_one = [_quota(init.resources) for init in inits if init not in beside]
    known = [quota for quota in together if quota], [quota for quota in one_by_one if quota]
    if known != (together, one_by_one):
        return None
    return max(sum(known[0]), *known[1], 0) or None


def _quota(resources: ResourceRequirements | None) -> int | None:
    """The quota for a limit in CPUs; ``None`` without one, or with one that is not a quantity."""
    cpu = resources.limits.get("cpu") if resources and resources.limits else None
    try:
        limit = milli(cpu or 0)
    except ValueError:
        return None
    return max(limit * _PERIOD // 1000, _LEAST_QUOTA) if limit > 0 else None


def _split(container_id: str) -> tuple[str, str]:
    """Runtime and id of "containerd://abc"."""
    runtime, separator, ident = container_id.partition("://")
    return (runtime, ident) if separator else ("containerd", container_id)


def _with_batch_spec(annotations: Mapping[str, str], spec: PodSpec) -> Mapping[str, str]:
    """The annotations, with the one that the webhook would have written if it is missing.

    Where no manager answered, or its gate is off, the pod was created without it, and would run
    with the least weight and without any limit.
    """
    if ANNOTATION_EXTENDED_RESOURCE_SPEC in annotations:
        return annotations
    found = batch_spec(spec.containers or [], spec.init_containers or [])
    if not found:
        return annotations
    text = msgspec.json.encode(found, order="deterministic").decode()
    return {**annotations, ANNOTATION_EXTENDED_RESOURCE_SPEC: text}
