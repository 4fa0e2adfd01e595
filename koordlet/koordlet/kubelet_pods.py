"""The kubelet's pod list, read into records: only the fields that are used."""

from __future__ import annotations

import msgspec
from koord_host.layout import Layout
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS

from koordlet.inventory import PodRecord


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    runtime_class: str | None = msgspec.field(default=None, name="runtimeClassName")
    host_network: bool | None = msgspec.field(default=None, name="hostNetwork")


class _State(msgspec.Struct):
    running: dict[str, object] | None = None


class _ContainerStatus(msgspec.Struct):
    name: str = ""
    container_id: str | None = msgspec.field(default=None, name="containerID")
    state: _State | None = None


class _Status(msgspec.Struct):
    phase: str = ""
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
    items: list[_Pod] | None = None


_DECODER = msgspec.json.Decoder(_PodList)
_ENDED = {"Succeeded", "Failed"}


def parse(text: bytes, layout: Layout) -> tuple[PodRecord, ...]:
    """The pods of a v1 PodList that have not ended, with their running containers.

    Raises:
        ValueError: it is no PodList, or an empty one: a kubelet that has just
            started says so of a node full of pods.
    """
    try:
        listed = _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"is no pod list: {error}") from None
    if not listed.items:
        raise ValueError("lists no pods")
    return tuple(_record(pod, layout) for pod in listed.items if pod.status.phase not in _ENDED)


def _record(listed: _Pod, layout: Layout) -> PodRecord:
    meta, status = listed.metadata, listed.status
    qos = KubeQoS(status.qos_class) if status.qos_class in set(KubeQoS) else KubeQoS.GUARANTEED
    pod = Pod(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        cgroup_parent=layout.pod_group(qos, meta.uid),
        runtime_handler=listed.spec.runtime_class or "",
        ip="" if listed.spec.host_network else status.pod_ip or "",
    )
    running = [
        one
        for one in (*(status.init_containers or ()), *(status.containers or ()))
        if one.container_id and one.state is not None and one.state.running is not None
    ]
    split = [(one.name, *_split(one.container_id or "")) for one in running]
    return PodRecord(
        pod,
        {ident: Container(pod, name, ident) for name, _, ident in split},
        runtime=next((runtime for _, runtime, _ in split), "containerd"),
    )


def _split(container_id: str) -> tuple[str, str]:
    """Runtime and id of "containerd://abc"."""
    runtime, separator, ident = container_id.partition("://")
    return (runtime, ident) if separator else ("containerd", container_id)
