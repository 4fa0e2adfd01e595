"""The kinds of objects that pods are placed by, and where each goes. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from typing import Any

import msgspec
from koord_kube.protocol.resources import (
    DISRUPTION_BUDGETS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)

from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.disruption_budget import (
    DisruptionBudgetObject,
    read_disruption_budget,
)
from koord_scheduler.objects.metadata import AnyObject, read_metadata
from koord_scheduler.objects.node import Node, read_node
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.workload import (
    EqualitySelectorObject,
    LabelSelectorObject,
    read_replica_set,
    read_replication_controller,
    read_service,
    read_stateful_set,
)
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.pod_reader import PodReader

_WORKLOADS: Mapping[Resource, tuple[Callable[[bytes], Any], type[msgspec.Struct]]] = {
    SERVICES: (read_service, EqualitySelectorObject),
    REPLICATION_CONTROLLERS: (read_replication_controller, EqualitySelectorObject),
    REPLICA_SETS: (read_replica_set, LabelSelectorObject),
    STATEFUL_SETS: (read_stateful_set, LabelSelectorObject),
}


def cluster_kinds(
    scheduler: Scheduler, now: Callable[[], float] = lambda: 0.0
) -> list[ClusterKind]:
    """All kinds but pods; ``now`` is in monotonic seconds."""
    nodes, budgets = scheduler.nodes, scheduler.budgets
    return [
        ClusterKind(NODES, Node, read_node, lambda _, node: nodes.set(node), nodes.remove),
        ClusterKind(
            NAMESPACES,
            AnyObject,
            _namespace_labels,
            nodes.namespaces.set,
            nodes.namespaces.remove,
        ),
        ClusterKind(
            DISRUPTION_BUDGETS,
            DisruptionBudgetObject,
            read_disruption_budget,
            lambda _, budget: budgets.set(budget),
            budgets.remove,
        ),
        *(
            ClusterKind(
                resource,
                view,
                read,
                partial(nodes.workloads.set, resource.kind),
                partial(nodes.workloads.remove, resource.kind),
            )
            for resource, (read, view) in _WORKLOADS.items()
        ),
        *chain.from_iterable(kinds(now) for kinds in nodes.hooks("kinds")),
    ]


def pod_kind(scheduler: Scheduler, now: Callable[[], float]) -> ClusterKind:
    """Pods; ``now`` is in monotonic seconds."""
    return ClusterKind(
        PODS,
        PodInfo,
        PodReader(scheduler.nodes).read,
        lambda _, pod: scheduler.set_pod(pod, now()),
        scheduler.remove_pod,
        has_decisions=True,
    )


def _namespace_labels(raw: bytes) -> Mapping[str, str]:
    return read_metadata(raw).labels or {}
