"""A plan of Defragmentation for a cluster that is given as a list of objects. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from koord_kube.protocol.resources import PODS, Resource
from koord_scheduler.config.scheduler_config import (
    SchedulerConfig,
    default_scheduler_config,
    read_scheduler_config,
)
from koord_scheduler.objects.metadata import read_metadata
from koord_scheduler.state.cluster_kind import ClusterKind

from koord_descheduler.framework.round import (
    DeschedulerProfile,
    DeschedulingRound,
    RoundSettings,
    run_round,
)
from koord_descheduler.planner.budgets import Budgets
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.planner.move import RoundPlan
from koord_descheduler.planner.move_memory import MoveMemory
from koord_descheduler.plugins.defragmentation.args import DefragmentationArgs
from koord_descheduler.plugins.defragmentation.plugin import Defragmentation
from koord_descheduler.program.plan_document import Document, plan_document

_PROFILE = "plan"


def kinds(config: str = "") -> list[tuple[Resource, str, str]]:
    """The kinds that a plan reads, but for pods; with namespace and name if it is one object.

    Raises:
        ValueError: the configuration is not valid.
    """
    found = ClusterModel(_scheduler_config(config)).kinds(lambda: 0.0)
    return [
        (kind.resource, kind.namespace, kind.object_name) for kind in found if kind.resource != PODS
    ]


def defrag_plan(
    objects: Mapping[str, Iterable[bytes]],
    now: float,
    args: Mapping[str, Any],
    config: str = "",
) -> Document:
    """Plan moves for what waits; ``now`` is in seconds since the epoch.

    The cluster is JSON documents by kind. ``args`` are those of Defragmentation, ``config`` is the
    text of the scheduler's configuration. Budgets of a configuration of the descheduler do not
    count.

    Raises:
        ValueError: a document or the arguments are not valid.
    """
    known = _arguments(args)
    cluster = ClusterModel(_scheduler_config(config))
    for kind in cluster.kinds(lambda: 0.0):
        for number, raw in enumerate(objects.get(kind.name, ()), start=1):
            try:
                _put(kind, raw)
            except ValueError as error:
                raise ValueError(f"{kind.name} number {number} {error}") from None
    plugin = Defragmentation(known)
    profile = DeschedulerProfile(_PROFILE, balance=[plugin])
    settings = RoundSettings(cool_down=0.0)
    shared = DeschedulingRound(cluster, Budgets([]), MoveMemory(0.0), now, settings, is_trial=True)
    plan = run_round(shared, [profile])
    prefix = f"{_PROFILE}/{Defragmentation.name}/"
    notes = {name.removeprefix(prefix): note for name, note in plan.notes.items()}
    return {**plan_document(plan), "notes": notes, "nodes": _nodes(cluster, plan, notes)}


def _arguments(args: Mapping[str, Any]) -> DefragmentationArgs:
    try:
        found = msgspec.convert(args, DefragmentationArgs)
    except msgspec.ValidationError as error:
        raise ValueError(f"the arguments are not valid: {error}") from None
    problems = list(found.problems("args"))
    if problems:
        raise ValueError("; ".join(problems))
    return found


def _scheduler_config(config: str) -> SchedulerConfig:
    return read_scheduler_config(config) if config else default_scheduler_config()


def _put(kind: ClusterKind, raw: bytes) -> None:
    metadata = read_metadata(raw)
    if kind.selects(metadata.namespace, metadata.name):
        namespace = f"{metadata.namespace}/" if metadata.namespace else ""
        kind.put(f"{namespace}{metadata.name}", kind.read(raw))


def _nodes(cluster: ClusterModel, plan: RoundPlan, notes: Mapping[str, Any]) -> list[Document]:
    """Free amounts and the number of pods, before and after, of each node that is touched."""
    more: dict[str, Counter[str]] = {}

    def shift(node: str, key: str, sign: int) -> None:
        pod = cluster.pods[key].replacement
        amounts = Counter({name: sign * int(amount) for name, amount in pod.usage.request})
        more.setdefault(node, Counter()).update(amounts)

    for move in plan.moves:
        shift(move.source, move.pod.key, -1)
        shift(move.target, move.pod.key, 1)
    for note in notes.values():
        for key, node in note.get("nodes", {}).items() if "pods" in note else ():
            shift(node, key, 1)
    return [_node(cluster, name, more[name]) for name in sorted(more)]


def _node(cluster: ClusterModel, name: str, more: Counter[str]) -> Document:
    state = cluster.scheduler.nodes
    row = state.row(name)
    if row is None:
        return {"node": name}
    has, asked = state.resources.allocatable_on(row), state.resources.asked_on(row)
    free = {
        resource: int(amount - asked.get(resource, 0))
        for resource, amount in has.items()
        if amount and resource in more
    }
    after = {resource: amount - more[resource] for resource, amount in free.items()}
    return {"node": name, "free": free, "freeAfter": after}
