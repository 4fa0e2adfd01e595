"""Cost of moving a pod: its priority, and the work that is lost. No IO."""

from __future__ import annotations

from koord_model.priority import PriorityClass
from koord_model.times import from_rfc3339
from koord_scheduler.objects.annotations import read_annotations

from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.plugins.defragmentation.args import MoveCosts

ANNOTATION_CHECKPOINT = "descheduler.koordinator.sh/last-checkpoint"
"""The time from which a pod would go on, in RFC 3339; whoever saves the state writes it."""
_SERVING = frozenset(
    {"ReplicaSet", "StatefulSet", "ReplicationController", "Deployment", "CloneSet"}
)
_HOUR = 3600.0

read_annotations(ANNOTATION_CHECKPOINT)


def move_cost(pod: ObservedPod, costs: MoveCosts, now: float) -> float:
    """The cost of moving a pod; 1 for a pod of production that loses nothing."""
    part = {
        PriorityClass.MID: costs.mid,
        PriorityClass.BATCH: costs.batch,
        PriorityClass.FREE: costs.free,
    }.get(pod.template.priority_class, 1.0)
    lost = costs.lost_hour * _lost_seconds(pod, now) / _HOUR
    return part * (1.0 + min(lost, costs.most_lost))


def _lost_seconds(pod: ObservedPod, now: float) -> float:
    controller = pod.template.controller
    if pod.started is None or (controller is not None and controller.kind in _SERVING):
        return 0.0
    return max(0.0, now - max(pod.started, _checkpoint(pod)))


def _checkpoint(pod: ObservedPod) -> float:
    text = pod.annotations.get(ANNOTATION_CHECKPOINT)
    if text is None:
        return 0.0
    try:
        return from_rfc3339(text)
    except ValueError:
        return 0.0  # as if there were none: its work counts as lost
