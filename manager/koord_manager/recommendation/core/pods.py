"""A pod's part in recommendations: its owner, and its out-of-memory kills. No IO."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec
from koord_kube.views.labels import shared_labels
from koord_kube.views.metadata import OwnerReference
from koord_kube.views.pod import ClusterPodDocument, ResourceRequirements, decode_pod
from koord_model.demand import Amounts, amounts, requested
from koord_model.keys import MEMORY

_HASH = "pod-template-hash"
_OOM_KILLED = "OOMKilled"
_KEPT = 1 << 14

_Amounts = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class OutOfMemoryKill:
    """A container that was killed for its memory; ``limit`` is in bytes, ``at`` of the epoch."""

    container: str
    limit: int
    at: float


class RecommendationPod(msgspec.Struct, frozen=True, gc=False):
    """A pod; ``node`` is "" until it has one.

    ``workloads`` are (kind, name) of what made it: its controller, and the Deployment or CronJob
    above that, which follow from the names that Kubernetes' controllers give. ``requests`` are
    those of its containers, by name; of init containers those that stay beside the others.
    ``started`` is whether the other init containers have ended.
    """

    namespace: str
    name: str
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    node: str = ""
    workloads: tuple[tuple[str, str], ...] = ()
    requests: Mapping[str, Amounts] = msgspec.field(default_factory=dict)
    kills: tuple[OutOfMemoryKill, ...] = ()
    started: bool = True


def decode(content: bytes) -> RecommendationPod:
    """A pod's JSON.

    Raises:
        ValueError: it is not a pod.
    """
    return recommendation_pod(decode_pod(content))


def recommendation_pod(pod: ClusterPodDocument) -> RecommendationPod:
    """A pod as recommendations need it."""
    meta = pod.metadata
    beside = (container for container in pod.spec.init_containers or () if container.is_sidecar)
    stay = (*(pod.spec.containers or ()), *beside)
    containers = {
        container.name: container.resources or ResourceRequirements() for container in stay
    }
    return RecommendationPod(
        sys.intern(meta.namespace),
        meta.name,
        shared_labels(meta.labels),
        sys.intern(pod.spec.node),
        _same_workloads(tuple(workloads(meta.labels or {}, meta.owners or ()))),
        _same_requests(
            tuple(
                (name, tuple(requested(container.requests, container.limits).items()))
                for name, container in containers.items()
            )
        ),
        tuple(_kills(pod, containers)),
        pod.status.phase != "Pending",
    )


# One object for equal values: pods of one workload differ in little else than their names.
@lru_cache(maxsize=_KEPT)
def _same_workloads(found: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return found


@lru_cache(maxsize=_KEPT)
def _same_requests(requests: tuple[tuple[str, _Amounts], ...]) -> Mapping[str, Amounts]:
    return {name: dict(amounts) for name, amounts in requests}


def workloads(
    labels: Mapping[str, str], owners: Iterable[OwnerReference]
) -> Iterator[tuple[str, str]]:
    """The (kind, name) of a pod's controller, and of the Deployment or CronJob above that."""
    for owner in owners:
        if not owner.controller:
            continue
        yield owner.kind, owner.name
        above = owner.name.rpartition("-")
        # A ReplicaSet is called after its Deployment and the hash, a Job after its CronJob and
        # the minute that it was due.
        if owner.kind == "ReplicaSet" and above[2] == labels.get(_HASH):
            yield "Deployment", above[0]
        if owner.kind == "Job" and above[0] and above[2].isdigit():
            yield "CronJob", above[0]


def _kills(
    pod: ClusterPodDocument, containers: Mapping[str, ResourceRequirements]
) -> Iterator[OutOfMemoryKill]:
    for container in (*(pod.status.containers or ()), *(pod.status.inits or ())):
        for state in (container.last, container.state):
            ended = state.terminated if state else None
            if ended is None or ended.reason != _OOM_KILLED or ended.finished is None:
                continue
            limit = amounts(containers.get(container.name, ResourceRequirements()).limits).get(
                MEMORY, 0
            )
            # Without its own limit, it was the node that ran out of memory.
            if limit:
                yield OutOfMemoryKill(container.name, limit, ended.finished.timestamp())
