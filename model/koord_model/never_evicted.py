"""Pods that nothing evicts: one list for koordlet and the descheduler. No IO.

- static and mirror pods: the kubelet starts them, and no API can end them;
- pods that end already: to evict them once more does nothing;
- system-critical pods: priority 2000000000 and above, a priority class ``system-…``, or
  Koordinator's class SYSTEM;
- pods of a DaemonSet: its controller puts the next one on this very node;
- pods of the namespace kube-system, unless they are labelled for eviction themselves;
- pods whose eviction cost is the highest there is (``scheduling.koordinator.sh/eviction-cost``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from koord_model.keys import ANNOTATION_EVICTION_COST, ANNOTATION_MIRROR, LABEL_EVICTION_ENABLED
from koord_model.qos import QoSClass, qos_class

SYSTEM_CRITICAL = 2_000_000_000
"""``scheduling.SystemCriticalPriority`` of Kubernetes: no user's class may be so high."""

STATIC = "is a static pod"
ANNOTATION_CONFIG_SOURCE = "kubernetes.io/config.source"
_SYSTEM_CLASSES = "system-"
_SYSTEM_NAMESPACE = "kube-system"
_NEVER = str(2**31 - 1)


class EvictionTraits(NamedTuple):
    """All of a pod that decides whether anything may evict it.

    ``controller`` is the kind of its controller ("ReplicaSet"), "" without one.
    """

    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    priority: int | None
    priority_class_name: str
    controller: str
    is_leaving: bool


def never_evicted(pod: EvictionTraits) -> str:
    """Return why nothing may evict a pod; "" if something may."""
    annotations = pod.annotations
    if is_static(annotations):
        return STATIC
    if pod.is_leaving:
        return "ends already"
    if (pod.priority or 0) >= SYSTEM_CRITICAL:
        return f"is system-critical: its priority is {pod.priority}"
    if pod.priority_class_name.startswith(_SYSTEM_CLASSES):
        return f"is system-critical: its priority class is {pod.priority_class_name}"
    if qos_class(pod.labels) is QoSClass.SYSTEM:
        return "is of class SYSTEM"
    if pod.controller == "DaemonSet":
        return "is a DaemonSet's, which would start it again here"
    if pod.namespace == _SYSTEM_NAMESPACE and not opted_in(pod.labels):
        return f"is in {_SYSTEM_NAMESPACE} without {LABEL_EVICTION_ENABLED}=true"
    if annotations.get(ANNOTATION_EVICTION_COST) == _NEVER:
        return f"has the highest {ANNOTATION_EVICTION_COST}"
    return ""


def is_static(annotations: Mapping[str, str]) -> bool:
    """True if a kubelet starts the pod from its own files."""
    return (
        ANNOTATION_MIRROR in annotations
        or annotations.get(ANNOTATION_CONFIG_SOURCE, "api") != "api"
    )


def opted_in(labels: Mapping[str, str]) -> bool:
    """True if a pod itself says that it may be evicted."""
    return labels.get(LABEL_EVICTION_ENABLED) == "true"
