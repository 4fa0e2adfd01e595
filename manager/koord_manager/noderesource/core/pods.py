"""Summaries of pods for the calculation of batch and mid: small, as there are many. No IO.

Which pods count, with what, is Koordinator's (noderesource's batchresource and midresource).
On purpose different: what a mid pod asks for is its mid resources. By its ``cpu`` and ``memory``,
which are empty, it would read as an idle pod, and batch pods be promised the same once more.
"""

from __future__ import annotations

import sys
from functools import lru_cache

import msgspec
from koord_kube.views.decode import decode_view
from koord_kube.views.pod import ClusterPodDocument, PodSpec, ResourceRequirements
from koord_kube.views.pod_qos import kube_qos_of
from koord_model.demand import Amounts, InitContainer, amounts, whole_pod
from koord_model.keys import (
    ANNOTATION_MIRROR,
    ANNOTATION_RESOURCE_STATUS,
    BATCH_CPU,
    BATCH_MEMORY,
    CPU,
    MEMORY,
    MID_CPU,
    MID_MEMORY,
)
from koord_model.priority import PriorityClass, priority_class_or_default
from koord_model.qos import QoSClass, qos_class_or_default
from koord_model.resource_status import parse

LOW = frozenset({PriorityClass.BATCH, PriorityClass.FREE})
"""The classes that what is calculated here is offered to, or that come after them."""


class PodSummary(msgspec.Struct, frozen=True, gc=False):
    """One pod; a hundred bytes or two, as equal values are kept once.

    ``node`` is where it runs, "" before it is placed; ``active`` whether it does or will run.
    ``cpu`` (millicores) and ``memory`` (bytes) are its requests, a mid pod's of mid resources; so
    much it counts as using while nothing has measured it. ``numa_nodes`` are those it is bound
    to, if any.
    """

    node: str
    active: bool
    priority: PriorityClass
    lse: bool
    cpu: int
    memory: int
    numa_nodes: tuple[int, ...] = ()

    @property
    def high(self) -> bool:
        """True if it comes before batch pods."""
        return self.priority not in LOW


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Status(msgspec.Struct):
    phase: str = ""
    qos: str = msgspec.field(default="", name="qosClass")


class _Pod(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: _Status = msgspec.field(default_factory=_Status)


_DECODER = msgspec.json.Decoder(_Pod)
_ACTIVE = ("Running", "Pending")


def read_pod_summary(text: bytes) -> PodSummary:
    """The summary of a Pod's JSON.

    Raises:
        ValueError: it is not a Pod.
    """
    return pod_summary(decode_view(_DECODER, text, "a valid Pod"))


def pod_summary(pod: _Pod | ClusterPodDocument) -> PodSummary:
    """The summary of a decoded Pod."""
    labels, spec = pod.metadata.labels or {}, pod.spec
    kube = kube_qos_of(pod.status.qos, spec)
    priority = priority_class_or_default(labels, spec.priority, kube)
    requests, annotations = _requests(spec), pod.metadata.annotations or {}
    if ANNOTATION_MIRROR in annotations:
        # A static pod runs by its file, whatever a webhook has made of its mirror.
        priority, requests = priority_class_or_default({}, None, kube), _by_plain_names(requests)
    mid = requests if priority is PriorityClass.MID else {}
    return PodSummary(
        node=sys.intern(spec.node),
        active=pod.status.phase in _ACTIVE,
        priority=priority,
        lse=qos_class_or_default(labels, kube) is QoSClass.LSE,
        cpu=_same(max(requests.get(CPU, 0), mid.get(MID_CPU, 0))),
        memory=_same(max(requests.get(MEMORY, 0), mid.get(MID_MEMORY, 0))),
        numa_nodes=_numa_nodes(annotations.get(ANNOTATION_RESOURCE_STATUS)),
    )


def _by_plain_names(requests: Amounts) -> Amounts:
    """CPU and memory, which may have been renamed to what is left over."""
    return {
        CPU: max(requests.get(name, 0) for name in (CPU, BATCH_CPU, MID_CPU)),
        MEMORY: max(requests.get(name, 0) for name in (MEMORY, BATCH_MEMORY, MID_MEMORY)),
    }


def _requests(spec: PodSpec) -> Amounts:
    return whole_pod(
        (_requests_of(container.resources) for container in spec.containers or ()),
        [
            InitContainer(_requests_of(container.resources), container.is_sidecar)
            for container in spec.init_containers or ()
        ],
        _requests_of(spec.resources),
        amounts(spec.overhead),
    )


def _requests_of(resources: ResourceRequirements | None) -> Amounts:
    """The API server has put limits in for requests that are missing."""
    return amounts(resources.requests if resources else None)


def _numa_nodes(text: str | None) -> tuple[int, ...]:
    """Those of the scheduler's annotation; one that cannot be read binds to none."""
    if not text:
        return ()
    try:
        return _same_nodes(tuple(sorted(parse(text).placed)))
    except ValueError:
        return ()


# One object for equal values: a quarter of a million pods ask for a few amounts.
@lru_cache(maxsize=1 << 14)
def _same(amount: int) -> int:
    return max(0, amount)


@lru_cache(maxsize=1 << 10)
def _same_nodes(nodes: tuple[int, ...]) -> tuple[int, ...]:
    return nodes
