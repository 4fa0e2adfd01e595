"""Order in which pods are evicted where any of them would do, as Koordinator sorts them. No IO."""

from __future__ import annotations

from koord_model.keys import ANNOTATION_EVICTION_COST
from koord_model.priority import PriorityClass
from koord_model.qos import KubeQoS, QoSClass, qos_class_or_default
from koord_model.whole_number import whole_number
from koord_scheduler.objects.annotations import read_annotations

from koord_descheduler.objects.observed_pod import ObservedPod

ANNOTATION_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_PRIORITY_CLASSES = {
    kind: place
    for place, kind in enumerate(
        (
            PriorityClass.FREE,
            PriorityClass.BATCH,
            PriorityClass.MID,
            PriorityClass.PROD,
            PriorityClass.NONE,
        )
    )
}
_KUBE_QOS = {KubeQoS.BEST_EFFORT: 1, KubeQoS.BURSTABLE: 2, KubeQoS.GUARANTEED: 3}
_QOS = {QoSClass.BE: 1, QoSClass.LS: 2, QoSClass.LSR: 3, QoSClass.LSE: 4, QoSClass.SYSTEM: 4}

read_annotations(ANNOTATION_DELETION_COST, ANNOTATION_EVICTION_COST)


def eviction_order(pod: ObservedPod) -> tuple[int, ...]:
    """Return a key to sort pods by: those that cost least to evict come first."""
    traits = pod.template
    return (
        _PRIORITY_CLASSES[traits.treated_as],
        traits.priority or 0,
        _KUBE_QOS[traits.kube_qos],
        _QOS[qos_class_or_default(traits.labels, traits.kube_qos)],
        cost(pod, ANNOTATION_DELETION_COST),
        cost(pod, ANNOTATION_EVICTION_COST),
    )


def cost(pod: ObservedPod, annotation: str) -> int:
    """The number in an annotation of a pod; 0 without it, or if it is not one."""
    return whole_number(pod.annotations.get(annotation, ""), 32) or 0
