"""A DrainNode as the API has it: what it asks and how it stands, read and written. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from koord_kube.definitions.drain_spec import MOST_LISTED
from koord_kube.protocol.api import Object
from koord_model.times import from_rfc3339, rfc3339

from koord_descheduler.drain.drain_objects import FINALIZER, DrainedNode
from koord_descheduler.drain.drain_spec import DrainSpec, JobMode, read_drain_spec
from koord_descheduler.drain.drain_view import DrainStatus, DrainView
from koord_descheduler.drain.drained_pods import DrainedPod, Forbids, drained_pods, forbid_nothing
from koord_descheduler.drain.phases import DrainPhase
from koord_descheduler.drain.place_plan import plan_places
from koord_descheduler.drain.pod_states import (
    DrainParts,
    DrainStage,
    PodState,
    needs_place,
    pod_state,
)
from koord_descheduler.planner.cluster import ClusterModel

_STAGES = list(DrainStage)
_NO_PODS = (DrainPhase.FAILED, DrainPhase.ABORTED)


class OtherDrains(NamedTuple):
    """Things that a drain has to know of the others.

    ``nodes`` are those that they empty, ``settled`` the nodes that they planned for pods, by
    namespace/name; ``reluctant`` are nodes that are to be emptied later. ``claimants`` are the
    UIDs of all DrainNodes.
    """

    nodes: frozenset[str] = frozenset()
    reluctant: frozenset[str] = frozenset()
    settled: Mapping[str, str] = {}
    claimants: frozenset[str] = frozenset()


def drained_node(document: Object) -> str:
    """The node of a DrainNode: its first one, once it is about to be cordoned."""
    node = (document.get("status") or {}).get("nodeName")
    if node and FINALIZER in (document["metadata"].get("finalizers") or ()):
        return str(node)
    return str((document.get("spec") or {}).get("nodeName") or "")


def read_drain(document: Object) -> tuple[DrainSpec, DrainStatus]:
    """The spec and the status of a DrainNode.

    Raises:
        ValueError: its spec is not valid.
    """
    spec, given = read_drain_spec(document.get("spec")), document.get("status") or {}
    status = DrainStatus(
        DrainPhase(given.get("phase") or DrainPhase.PENDING),
        given.get("message", ""),
        bool(given.get("cordonedBefore")),
        _seconds(given.get("confirmTime")),
        _seconds(given.get("endTime")),
        (given.get("counts") or {}).get("drained", 0),
    )
    return spec._replace(node=drained_node(document)), status


def observe(
    document: Object,
    cluster: ClusterModel,
    node: DrainedNode | None,
    parts: DrainParts,
    others: OtherDrains,
    now: float,
    *,
    reserves: bool = True,
    forbids: Forbids = forbid_nothing,
) -> DrainView:
    """All that the next step of a drain depends on.

    Without ``reserves`` places are simulated, whatever it asks.

    Raises:
        ValueError: its spec is not valid.
    """
    spec, status = read_drain(document)
    if spec.is_dry_run or not reserves:
        spec = spec._replace(mode=JobMode.DIRECT)
    meta = document["metadata"]
    has_pods = status.phase not in _NO_PODS and node is not None
    pods = drained_pods(cluster, spec, forbids) if has_pods else []
    return DrainView(
        meta["name"],
        meta["uid"],
        spec,
        status,
        node,
        _states(cluster, spec, pods, parts, others, now),
        parts,
        now,
        bool(meta.get("deletionTimestamp")),
        FINALIZER in (meta.get("finalizers") or ()),
        others.claimants,
    )


def _states(
    cluster: ClusterModel,
    spec: DrainSpec,
    pods: Collection[DrainedPod],
    parts: DrainParts,
    others: OtherDrains,
    now: float,
) -> tuple[PodState, ...]:
    lacking = [pod for pod in pods if needs_place(pod, parts)]
    places = (
        plan_places(
            cluster,
            lacking,
            drained=others.nodes | {spec.node},
            reluctant=others.reluctant,
            settled={**others.settled, **parts.settled(pods)},
            now=now,
        )
        if lacking
        else {}
    )
    return tuple(pod_state(pod, places.get(pod.view.key), parts, spec.mode, now) for pod in pods)


def status_document(view: DrainView, status: DrainStatus) -> Object:
    """The status to write; ``None`` removes a field."""
    shown = sorted(view.pods, key=lambda state: _STAGES.index(state.stage))
    return {
        "phase": status.phase.value,
        "message": status.message,
        "nodeName": view.spec.node,
        "cordonedBefore": status.was_cordoned,
        "confirmTime": _written(status.confirmed_at),
        "endTime": _written(status.ended_at),
        "counts": _counts(view.pods, status),
        "pods": [_pod(state) for state in shown[:MOST_LISTED]],
        "unlistedPods": max(0, len(shown) - MOST_LISTED),
    }


def _counts(pods: Iterable[PodState], status: DrainStatus) -> dict[str, int]:
    stages = [state.stage for state in pods]
    ready, migrating = stages.count(DrainStage.READY), stages.count(DrainStage.MIGRATING)
    blocked = stages.count(DrainStage.BLOCKED) + stages.count(DrainStage.FAILED)
    return {
        "total": len(stages),
        "ready": ready,
        "migrating": migrating,
        "blocked": blocked,
        "waiting": len(stages) - ready - migrating - blocked,
        "drained": status.drained,
    }


def _pod(state: PodState) -> Object:
    pod = state.pod.view
    found: dict[str, Any] = {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "state": state.stage.value,
        "wave": state.pod.wave,
        "targetNode": state.target,
        "reservation": state.reservation.name if state.reservation else "",
        "job": state.job.name if state.job else "",
        "why": state.why,
    }
    return {name: value for name, value in found.items() if value != ""}


def _seconds(text: str | None) -> float | None:
    return from_rfc3339(text) if text else None


def _written(seconds: float | None) -> str | None:
    return rfc3339(seconds) if seconds is not None else None
