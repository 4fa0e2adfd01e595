"""Why a pod waits, or what the scheduler thinks of its node."""

from __future__ import annotations

from koord_scheduler.classes.pod_reader import ClusterPod
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.placement_report import best_nodes
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.program.pages import Document, diagnosis_document, scores_document
from koord_scheduler.queue.scheduling_queue import QueuedPod


def explain(scheduler: Scheduler, key: str, pod: ClusterPod, now: float) -> Document:
    """What is known of a pod; ``now`` in monotonic seconds."""
    placed = scheduler.placed.by_key.get(key)
    if placed is not None:
        state = "assumed" if key in scheduler.assumed else "bound"
        return {"pod": key, "state": state, "node": placed.node}
    queued = scheduler.queue.pods.get(key)
    if queued is None:
        name = pod.waiting.scheduler_name if pod.waiting is not None else ""
        return {"pod": key, "state": "not ours", "scheduler": name}
    return {"pod": key, **_waiting(scheduler, queued, now)}


def _waiting(scheduler: Scheduler, pod: QueuedPod, now: float) -> Document:
    nomination = scheduler.nominations.get(pod.key)
    common = {
        "priority": pod.priority,
        "waits_seconds": round(now - pod.added, 1),
        "nominated_node": nomination.node if nomination is not None else "",
    }
    if scheduler.queue.is_gated(pod.key):
        return {**common, "state": "gated", "gates": list(pod.waiting.gates)}
    scores = scheduler.scores(pod)
    document = {
        **common,
        "diagnosis": diagnosis_document(diagnose(scores)),
        "best": scores_document(best_nodes(scores)),
    }
    if pod.retry_at:
        retries = round(max(0.0, pod.retry_at - now), 1)
        return {**document, "state": "backoff", "attempts": pod.attempts, "retry_seconds": retries}
    parked = scheduler.queue.is_parked(pod.class_key)
    return {**document, "state": "unschedulable" if parked else "active"}
