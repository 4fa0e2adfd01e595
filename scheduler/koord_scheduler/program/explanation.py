"""Explanation of a pod's wait or its node, as plain data.

Every document names the ``pod`` and its ``state``; where nothing can be explained, ``reason``
says why in a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, NamedTuple

import msgspec

from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.diagnosis import Diagnosis, diagnose
from koord_scheduler.framework.fit_error import fit_error_message
from koord_scheduler.framework.held_scores import class_scores
from koord_scheduler.framework.placement_report import best_nodes
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.gangs.policy_words import policy_words
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.program.waking_changes import waking_changes
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass, pod_class
from koord_scheduler.state.pod_reader import ClusterPod
from koord_scheduler.state.pod_usage import PlacedPod

Document = Mapping[str, Any]


class Now(NamedTuple):
    """The present: monotonic seconds, and seconds since the epoch."""

    monotonic: float
    epoch: float


class PendingForm(NamedTuple):
    """The scheduler of a pod that has a node, and the class that it had when it had none."""

    scheduler_name: str
    pod_class: PodClass


def read_as_pending(raw: bytes, nodes: ClusterState) -> PendingForm:
    """Read a pod in a JSON document as it was before it got its node.

    Raises:
        ValueError: it is not a Pod, or a quantity or a selector in it is not one.
    """
    pod = read_pod(raw)
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return PendingForm(
        spec.scheduler_name,
        pod_class(msgspec.structs.replace(pod, spec=spec), nodes.features.values()),
    )


def unexplained(key: str, state: str, reason: str) -> Document:
    """That nothing can be explained of a pod."""
    return {"pod": key, "state": state, "reason": reason}


def explain_waiting(scheduler: Scheduler, pod: ClusterPod, now: Now) -> Document:
    """Explain why a pod that has no node waits."""
    queued = scheduler.queue.pods.get(pod.key)
    if queued is not None:
        return explain_queued(scheduler, queued, now)
    name = pod.waiting.scheduler_name if pod.waiting is not None else ""
    if name in scheduler.profiles:
        return unexplained(pod.key, "leaving", f"{pod.key} was deleted before it had a node")
    reason = f'{pod.key} is for the scheduler "{name}", not this one; see kubectl describe pod'
    return unexplained(pod.key, "foreign", reason)


def explain_queued(scheduler: Scheduler, pod: QueuedPod, now: Now) -> Document:
    """Explain why a pod in the queue waits."""
    return {"pod": pod.key, "at": now.epoch, **_waiting(scheduler, pod, now)}


def explain_choice(scheduler: Scheduler, pod: QueuedPod, also: str = "") -> Document:
    """The nodes that a pod can be placed on now: the best ones and ``also``, with their scores."""
    scores = scheduler.scores(pod)
    return {
        "priority": pod.priority,
        "nodes": int(scheduler.nodes.is_node.sum()),
        "feasible": len(scores.feasible()),
        "best": scores_document(scores, also),
    }


def explain_placed(scheduler: Scheduler, pod: PlacedPod, before: PendingForm) -> Document:
    """Explain the scheduler's present view of a pod's node: as if it were placed again."""
    is_assumed = pod.key in scheduler.assumed
    common = {
        "pod": pod.key,
        "state": "assumed" if is_assumed else "bound",
        "node": pod.node,
        "priority": pod.priority,
    }
    profile = scheduler.profiles.get(before.scheduler_name)
    if profile is None:
        reason = f'the scheduler "{before.scheduler_name}" placed {pod.key} on {pod.node}'
        return {**common, "reason": reason}
    with _without(scheduler, pod):
        scores = class_scores(before.pod_class, scheduler.nodes, profile.plugins)
        row = scheduler.nodes.row(pod.node)
        is_node = row is not None and bool(scheduler.nodes.is_node[row])
        return {
            **common,
            "nodes": int(scheduler.nodes.is_node.sum()),
            "feasible": len(scores.feasible()),
            "rejected_by": scores.rejections(row) if row is not None and is_node else [],
            "is_node": is_node,
            "best": scores_document(scores, pod.node),
        }


def scores_document(scores: ClassScores, also: str = "") -> list[Document]:
    """The best nodes and the node ``also``, each with its score by plugin."""
    return [asdict(best_node) for best_node in best_nodes(scores, also=also)]


def diagnosis_document(diagnosis: Diagnosis) -> Document:
    """Return why pods of a class fit on few nodes, or on none."""
    return {
        "message": fit_error_message(diagnosis),
        "nodes": diagnosis.nodes,
        "feasible": diagnosis.feasible,
        "plugins": [
            {"plugin": plugin.plugin, "nodes": plugin.nodes, "alone": plugin.alone}
            for plugin in diagnosis.plugins
        ],
        "reasons": diagnosis.reasons,
        "nearest": [
            {
                "node": one.node,
                "lacks": {lack.resource: lack.quantity for lack in one.lacks},
                "plugins": list(one.plugins),
                "notes": list(one.notes),
            }
            for one in diagnosis.nearest
        ],
        "wakes_on": waking_changes(diagnosis),
    }


def _waiting(scheduler: Scheduler, pod: QueuedPod, now: Now) -> Document:
    nomination = scheduler.nominations.get(pod.key)
    waited, created = now.monotonic - pod.added, pod.waiting.created
    common = {
        "priority": pod.priority,
        "since": created if created > 0 else now.epoch - waited,
        "attempts": pod.attempts,
        "nominated_node": nomination.node if nomination is not None else "",
    }
    if scheduler.queue.is_gated(pod.key):
        return {**common, "state": "gated", "gates": list(pod.waiting.gates)}
    if pod.gang:
        return {**common, **_waiting_gang(scheduler, pod, now)}
    scores, refusal = scheduler.scores(pod), pod.extender_refusal
    document = {
        **common,
        "diagnosis": diagnosis_document(diagnose(scores, refusal)),
        "quota": _not_admitted(scheduler, pod),
        "extender_failure": refusal.failure if refusal is not None else "",
        "held_nodes": scheduler.count_held_nodes(pod),
        "best": scores_document(scores) if refusal is None else [],
    }
    if pod.retry_at:
        retries = round(max(0.0, pod.retry_at - now.monotonic), 1)
        return {**document, "state": "backoff", "retry_seconds": retries}
    parked = scheduler.queue.is_parked(pod.class_key)
    return {**document, "state": "unschedulable" if parked else "active"}


def _waiting_gang(scheduler: Scheduler, pod: QueuedPod, now: Now) -> Document:
    """Explain a pod's gang group, with the diagnosis of its first pod that does not fit."""
    found, own = scheduler.gang_cycle.report(pod), scheduler.gangs.gang_of(pod.key)
    gang = {
        "group": found.group_id,
        "policy": policy_words(own, scheduler.gangs) if own is not None else "",
        "waiting": found.waiting,
        "needed": found.needed,
        "reason": found.reason,
        "fitted": found.fitted,
        "failed": found.failed,
    }
    document: dict[str, Any] = {"gang": gang, "diagnosis": None}
    if found.diagnosis is not None:
        document["diagnosis"] = diagnosis_document(found.diagnosis)
    if pod.retry_at:
        retries = round(max(0.0, pod.retry_at - now.monotonic), 1)
        return {**document, "state": "backoff", "retry_seconds": retries}
    parked = scheduler.queue.is_parked(pod.class_key)
    return {**document, "state": "unschedulable" if parked else "active"}


def _not_admitted(scheduler: Scheduler, pod: QueuedPod) -> Document | None:
    """Return the explanation of the first plugin that does not admit a pod to any node."""
    pod_class, nodes = pod.waiting.pod_class, scheduler.nodes
    for plugin in scheduler.profiles[pod.waiting.scheduler_name].admitting:
        found = plugin.explain(pod_class, nodes)
        if found is not None:
            return found
    return None


@contextmanager
def _without(scheduler: Scheduler, pod: PlacedPod) -> Iterator[None]:
    """The cluster without a pod, for as long as it takes to look at it."""
    with scheduler.nodes.trial():
        scheduler.placed.remove(pod.key)
        try:
            yield
        finally:
            scheduler.placed.set(pod)
