"""The end of a binding, as the pod says it. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from koord_kube.views.decode import decode_view

from koord_scheduler.objects.metadata import ObjectMeta
from koord_scheduler.objects.pod import PodInfo, SchedulingContainer
from koord_scheduler.state.pod_reader import seconds

_OUT_OF = "OutOf"
_OF_DEVICES = ("UnexpectedAdmissionError", "TopologyAffinityError")
_OF_NODES = frozenset(
    {
        *_OF_DEVICES,
        "InvalidNodeInfo",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "NodeShutdown",
        "SMTAlignmentError",
        "TaintToleration",
        "UnexpectedPredicateFailureType",
        "UnknownReason",
    }
)
"""The kubelet's reasons for not admitting a pod that are not the pod's fault; OutOf* beside them.

Of Kubernetes 1.37: pkg/kubelet/lifecycle, cm/admission, cm/topologymanager, nodeshutdown.
"""


class Verdict(NamedTuple):
    """A binding's end; ``at`` is when the kubelet saw the pod, in seconds since the epoch.

    ``owner`` is the uid of the pod's controller, or its own. ``kinds`` are the extended resources
    that it requests, ``kind`` is what a rejection is about.
    """

    uid: str
    node: str
    at: float
    owner: str
    kinds: tuple[str, ...]
    is_rejected: bool
    kind: str = ""


class _State(msgspec.Struct, frozen=True, rename="camel"):
    running: dict[str, Any] | None = None
    terminated: dict[str, Any] | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    state: _State = _State()
    last_state: _State = _State()

    @property
    def has_run(self) -> bool:
        states = self.state, self.last_state
        return any(state.running is not None or state.terminated is not None for state in states)


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    containers: list[SchedulingContainer] | None = None
    init_containers: list[SchedulingContainer] | None = None


class FailedPod(msgspec.Struct, frozen=True):
    """A pod that has failed."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_DECODER = msgspec.json.Decoder(FailedPod)


def read_failed_pod(raw: bytes) -> tuple[Verdict, ...]:
    """The rejection of a pod that has failed; (): it failed otherwise.

    Raises:
        ValueError: it is not a Pod.
    """
    pod = decode_view(_DECODER, raw, "a valid Pod")
    spec, status = pod.spec, pod.status
    counts = status.reason in _OF_NODES or status.reason.startswith(_OUT_OF)
    containers = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    if not counts or not spec.node_name or any(container.has_run for container in containers):
        return ()
    kinds = _extended([*(spec.containers or ()), *(spec.init_containers or ())])
    kind = _kind_of(status.reason, status.message, kinds)
    at = seconds(status.start_time or pod.metadata.creation_timestamp) or 0.0
    meta = pod.metadata
    return (Verdict(meta.uid, spec.node_name, at, _owner(meta), kinds, True, kind),)


def accepted(pod: PodInfo) -> tuple[str, tuple[str, ...]] | None:
    """Owner and kinds of a pod that runs; ``None`` if it does not."""
    if pod.status.phase != "Running":
        return None
    spec = pod.spec
    return _owner(pod.metadata), _extended(
        [*(spec.containers or ()), *(spec.init_containers or ())]
    )


def extended_resources(names: Iterable[str]) -> tuple[str, ...]:
    """Those of devices and others that nodes have beside their own, in order."""
    return tuple(sorted({name for name in names if "/" in name}))


def _extended(containers: Iterable[SchedulingContainer]) -> tuple[str, ...]:
    found: set[str] = set()
    for container in containers:
        if container.resources is not None:
            # Of extended resources, limits and requests are equal.
            found.update(container.resources.requests or ())
            found.update(container.resources.limits or ())
    return extended_resources(found)


def _owner(metadata: ObjectMeta) -> str:
    owners = metadata.owner_references or ()
    return next((owner.uid for owner in owners if owner.controller), metadata.uid)


def _kind_of(reason: str, message: str, kinds: tuple[str, ...]) -> str:
    """The resource that the kubelet names; else, of devices, the only one there is; else ""."""
    if reason.startswith(_OUT_OF):
        named = reason.removeprefix(_OUT_OF)
        return named if named in kinds else ""
    if reason not in _OF_DEVICES:
        return ""
    # The longest: one name may be the beginning of another.
    mentioned = sorted((kind for kind in kinds if kind in message), key=len)
    if mentioned:
        return mentioned[-1]
    return kinds[0] if len(kinds) == 1 else ""
