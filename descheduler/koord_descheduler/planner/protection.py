"""Pods that nothing evicts: the same as koordlet's evictor leaves alone. No IO."""

from __future__ import annotations

from koord_model.keys import ANNOTATION_EVICTION_COST, ANNOTATION_MIRROR
from koord_model.never_evicted import (
    ANNOTATION_CONFIG_SOURCE,
    EvictionTraits,
    is_static,
    never_evicted,
)
from koord_scheduler.objects.annotations import read_annotations

from koord_descheduler.objects.observed_pod import ObservedPod

read_annotations(ANNOTATION_EVICTION_COST, ANNOTATION_MIRROR, ANNOTATION_CONFIG_SOURCE)


def belongs_to_node(pod: ObservedPod) -> bool:
    """True if a pod starts again on its node, and nowhere else."""
    controller = pod.template.controller
    is_daemon = controller is not None and controller.kind == "DaemonSet"
    return is_daemon or is_static(pod.annotations)


def protection(pod: ObservedPod) -> str:
    """Return why nothing may evict a pod, in a line; "" if something may."""
    template = pod.template
    controller = template.controller
    return never_evicted(
        EvictionTraits(
            template.namespace,
            template.labels,
            template.annotations,
            template.priority,
            template.priority_class_name,
            controller.kind if controller is not None else "",
            pod.deleted is not None,
        )
    )
