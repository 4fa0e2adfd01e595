"""Placement of pods in a cluster that is given as a list of objects. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

import msgspec
from koord_kube.protocol.resources import PODS, Resource

from koord_scheduler.config.scheduler_config import (
    default_scheduler_config,
    read_scheduler_config,
)
from koord_scheduler.framework.cluster_kinds import cluster_kinds
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.profile import Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.metadata import read_metadata
from koord_scheduler.objects.pod import DEFAULT_SCHEDULER, read_pod
from koord_scheduler.objects.pod_defaults import Manifest, with_defaults
from koord_scheduler.plugins.load_aware.columns import NodeLoads
from koord_scheduler.program.explanation import Document, Now, explain_choice, explain_waiting
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.pod_reader import ClusterPod, PodReader

_ENDED = ("Succeeded", "Failed")
_BEGINNING = Now(0.0, 0.0)


def kinds(config: str = "") -> list[tuple[Resource, str, str]]:
    """The kinds that ``what_if`` reads with a configuration, but for pods.

    Those of which it reads one object alone are with its namespace and name.

    Raises:
        ValueError: the configuration is not valid.
    """
    scheduler = Scheduler(_profiles(config, (DEFAULT_SCHEDULER,)))
    needed = (cluster_kind for cluster_kind in cluster_kinds(scheduler) if cluster_kind.is_needed)
    return [(one.resource, one.namespace, one.object_name) for one in needed]


def what_if(
    objects: Mapping[str, Iterable[bytes]], manifests: Iterable[Manifest], config: str = ""
) -> Document:
    """Place the pods of ``manifests``, one after the other, each with its reasons.

    The cluster is JSON documents by kind; kinds that no plugin asks about count for nothing.
    Pods that wait themselves are left out (``pending`` says how many), unless a manifest has
    their name. ``config`` is the text of a KubeSchedulerConfiguration; without it each scheduler
    name has the default profile.

    Raises:
        ValueError: a document is not valid, or two manifests have one name.
    """
    wanted = [_created(manifest, number) for number, manifest in enumerate(manifests, start=1)]
    names = {read_pod(raw).spec.scheduler_name for raw in wanted}
    scheduler = Scheduler(_profiles(config, names))
    reader = PodReader(scheduler.nodes)
    pending: set[str] = set()
    asked: dict[str, ClusterPod] = {}
    for kind in cluster_kinds(scheduler):
        _for_each(kind.name, objects.get(kind.name, ()), partial(_add, kind))
    for waiting in tuple(scheduler.queue.pods):  # reservations; pods that wait are left out, too
        scheduler.queue.remove(waiting)
    add_pod = partial(_add_pod, scheduler, reader, pending)
    _for_each(PODS.kind, objects.get(PODS.kind, ()), add_pod)
    _for_each("the new Pod", wanted, lambda raw: _ask_for(reader.read(raw), asked))
    # The cluster may be a snapshot: what is new is so by its newest report.
    loads = scheduler.nodes.find(NodeLoads)
    scheduler.nodes.set_epoch(loads.newest_report() if loads is not None else 0.0)
    for pod in asked.values():
        scheduler.set_pod(pod, _BEGINNING.monotonic)
    placed = _place(scheduler)
    found = [placed.get(key) or _not_placed(scheduler, pod) for key, pod in asked.items()]
    return {"pods": found, "pending": len(pending - asked.keys())}


def _profiles(config: str, names: Iterable[str]) -> list[Profile]:
    if config:
        return [profile.guarded() for profile in read_scheduler_config(config).profiles]
    [default] = default_scheduler_config().profiles
    return [replace(default.guarded(), scheduler_name=name) for name in sorted(names)]


def _created(manifest: Manifest, number: int) -> bytes:
    """The pod as it would be once it is created.

    Raises:
        ValueError: it is not a pod.
    """
    _for_each("the new Pod", [msgspec.json.encode(manifest)], read_pod, first=number)
    return msgspec.json.encode(with_defaults(manifest, number))


def _for_each(
    kind: str, documents: Iterable[bytes], act: Callable[[bytes], object], first: int = 1
) -> None:
    """Raises ValueErrors with the number of the document."""
    for number, raw in enumerate(documents, start=first):
        try:
            act(raw)
        except ValueError as error:
            raise ValueError(f"{kind} number {number} {error}") from None


def _add(kind: ClusterKind, raw: bytes) -> None:
    metadata = read_metadata(raw)
    if not kind.selects(metadata.namespace, metadata.name):
        return
    namespace = f"{metadata.namespace}/" if metadata.namespace else ""
    kind.put(f"{namespace}{metadata.name}", kind.read(raw))


def _add_pod(scheduler: Scheduler, reader: PodReader, pending: set[str], raw: bytes) -> None:
    """Put a pod of the cluster where it is; those without a node are ``pending``."""
    pod = reader.read(raw)
    if read_pod(raw).status.phase in _ENDED:
        return
    if pod.waiting is None:
        scheduler.set_pod(pod, _BEGINNING.monotonic)
    else:
        pending.add(pod.key)


def _ask_for(pod: ClusterPod, asked: dict[str, ClusterPod]) -> None:
    if pod.key in asked:
        raise ValueError(f"has the name of another one, {pod.key}")
    asked[pod.key] = pod


def _place(scheduler: Scheduler) -> dict[str, Document]:
    """Give all pods their nodes for which there are any."""
    placed: dict[str, Document] = {}
    while True:
        head = scheduler.queue.next()
        choice = explain_choice(scheduler, head) if head is not None else {}
        decision = scheduler.decide(_BEGINNING.monotonic)
        if decision is None:
            return placed
        if isinstance(decision, Placement):
            pod = decision.pod  # not the first that waits where a gang is placed
            about = {"pod": pod.key, "state": "placed", "node": decision.node}
            placed[pod.key] = {**about, **(choice if pod is head else {})}


def _not_placed(scheduler: Scheduler, pod: ClusterPod) -> Document:
    if pod.waiting is None:
        reason = f"{pod.key} names its node itself: {pod.node}"
        return {"pod": pod.key, "state": "bound", "node": pod.node, "reason": reason}
    return explain_waiting(scheduler, pod, _BEGINNING)
