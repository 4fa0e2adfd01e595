"""The queue and the nodes at a glance, for the web page; as large for all clusters. No IO."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from operator import itemgetter

import numpy as np
from koord_model.keys import CPU, MEMORY
from koord_model.quantity import quantity_text

from koord_scheduler.framework.queue.scheduling_queue import ClassQueue, QueuedPod, SchedulingQueue
from koord_scheduler.program.explanation import Document
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.resources import PODS

_CLASSES = 8
_NODES = 5
_BUCKETS = 10
_DEVICE_NODES = 10_000
_MOST_PERCENT = 999
_REASON = 1000
"""Letters."""


def queue_overview(queue: SchedulingQueue, now: float, epoch: float = 0.0) -> Document:
    """The classes of pods that fit nowhere at present, and the others; of both the largest.

    Times are in seconds, ``now`` is monotonic. With ``epoch``, the same moment since the epoch,
    pods wait since they were created, and not only since this scheduler has heard of them.
    """
    sizes = [(sum(1 for _ in pod_class.pods()), pod_class) for pod_class in queue.classes()]
    return {
        "parked": _classes(((size, one) for size, one in sizes if one.is_parked), now, epoch),
        "active": _classes(((size, one) for size, one in sizes if not one.is_parked), now, epoch),
    }


def nodes_overview(nodes: ClusterState) -> Document:
    """Count nodes by requested CPU and memory: by tenth of them, and at the ends.

    CPU is in millicores, memory in bytes, shares are parts of what is allocatable. A node is as
    full as its fuller resource.
    """
    rows, resources = np.flatnonzero(nodes.is_node), nodes.resources
    numbers = [resources.column(CPU), resources.column(MEMORY)]
    allocatable = resources.allocatable[numbers][:, rows]
    requested = resources.requested[numbers][:, rows]
    has_some = allocatable > 0
    shares = np.divide(requested, allocatable, out=np.zeros_like(requested), where=has_some)
    pods = resources.requested[resources.column(PODS), rows]
    order = shares.max(axis=0).argsort(kind="stable") if len(rows) else rows

    def node(place: int) -> Document:
        free = allocatable[:, place] - requested[:, place]
        return {
            "node": nodes.name(int(rows[place])),
            "cpu": float(shares[0, place]),
            "memory": float(shares[1, place]),
            "free_cpu": int(free[0]),
            "free_memory": int(free[1]),
            "pods": int(pods[place]),
        }

    buckets = np.minimum((shares * _BUCKETS).astype(np.intp), _BUCKETS - 1)
    return {
        "nodes": len(rows),
        "unschedulable": int(nodes.unschedulable.sum()),
        **{
            name: {
                "allocatable": int(allocatable[number].sum()),
                "requested": int(requested[number].sum()),
                "histogram": np.bincount(buckets[number], minlength=_BUCKETS).tolist(),
            }
            for number, name in enumerate(("cpu", "memory"))
        },
        "emptiest": [node(place) for place in order[:_NODES].tolist()],
        "fullest": [node(place) for place in order[::-1][:_NODES].tolist()],
    }


def device_shares(nodes: ClusterState) -> Document:
    """Percent of the devices of nodes that pods request: of each node its scarcest kind.

    Devices are the extended resources that nodes have, but Koordinator's of CPU and memory. The
    first nodes by row, so many that the answer stays within a few MiB.
    """
    resources = nodes.resources
    columns = [place for place, name in enumerate(resources.names) if _is_of_devices(name)]
    allocatable, requested = resources.allocatable[columns], resources.requested[columns]
    shares = np.divide(
        requested, allocatable, out=np.zeros_like(requested), where=allocatable > 0
    ).max(axis=0, initial=0.0)
    rows = np.flatnonzero(nodes.is_node & (allocatable > 0).any(axis=0))
    percents = np.minimum(np.rint(shares * 100), _MOST_PERCENT).astype(np.intp)
    return {"nodes": {nodes.name(row): int(percents[row]) for row in rows[:_DEVICE_NODES].tolist()}}


def _is_of_devices(name: str) -> bool:
    return "/" in name and not name.startswith("kubernetes.io/")


def _classes(sizes: Iterable[tuple[int, ClassQueue]], now: float, epoch: float) -> Document:
    found = [(size, one) for size, one in sizes if size]
    largest = heapq.nlargest(_CLASSES, found, key=itemgetter(0))
    heads = ((size, one, one.head()) for size, one in largest)
    return {
        "classes": len(found),
        "pods": sum(size for size, _ in found),
        "largest": [_class(one, size, head[-1], now, epoch) for size, one, head in heads if head],
    }


def _class(queue: ClassQueue, size: int, head: QueuedPod, now: float, epoch: float) -> Document:
    return {
        "pods": size,
        "like": head.key,
        "scheduler": head.waiting.scheduler_name,
        "priority": head.priority,
        "asks": _asks(head.waiting.pod_class),
        "waiting_seconds": max(_waited(pod, now, epoch) for pod in queue.pods()),
        "reason": head.reported[:_REASON],
    }


def _waited(pod: QueuedPod, now: float, epoch: float) -> float:
    created = pod.waiting.created
    return max(0.0, epoch - created if epoch and created > 0 else now - pod.added)


def _asks(pod: PodClass) -> str:
    """Describe the request of each of its pods, in one line."""
    amounts = ((name, amount) for name, amount in pod.amounts if name != PODS and amount)
    return ", ".join(f"{quantity_text(name, amount)} {name}" for name, amount in amounts)[:_REASON]
