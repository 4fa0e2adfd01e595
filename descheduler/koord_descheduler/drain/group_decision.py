"""One step of a DrainNodeGroup: the next node to plan, and the nodes to confirm. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from koord_kube.definitions.drain_spec import MOST_LISTED
from koord_kube.protocol.api import Object

from koord_descheduler.drain.drain_group import DrainGroup, GroupDrain, GroupPhase
from koord_descheduler.drain.phases import DrainPhase

_UNPLANNED = (DrainPhase.PENDING, DrainPhase.PLANNING)
_MOVING = (DrainPhase.RUNNING, DrainPhase.BLOCKED)


class GroupView(NamedTuple):
    """All that a step depends on.

    ``candidates`` are its nodes without a DrainNode, the one with most free first; ``free`` is
    the percentage that the other nodes have free once the first of them is drained too.
    ``active`` is the group that is under way, "" if that is this one.
    """

    group: DrainGroup
    drains: Sequence[GroupDrain]
    candidates: Sequence[str]
    free: float
    active: str = ""


class PlanNode(NamedTuple):
    """Make a DrainNode for a node."""

    node: str


class SetConfirm(NamedTuple):
    """Set ``confirmState`` of a DrainNode."""

    drain: str
    state: str


GroupAct = PlanNode | SetConfirm


class GroupDecision(NamedTuple):
    """The phase with its reason, and the acts."""

    phase: GroupPhase
    message: str
    acts: tuple[GroupAct, ...]


def decide_group(view: GroupView) -> GroupDecision:
    """Take one step."""
    group, drains = view.group, view.drains
    if group.is_aborted or group.phase is GroupPhase.ABORTED:
        return _abort(drains)
    if group.phase.is_end:
        return GroupDecision(group.phase, _ended(drains), ())
    if view.active:
        return GroupDecision(GroupPhase.PENDING, f"DrainNodeGroup {view.active} is under way", ())
    confirmed: tuple[GroupAct, ...] = tuple(_confirmations(group, drains))
    limit = _limit(view)
    if limit or not view.candidates:
        phase, message = _planned(drains, limit)
        return GroupDecision(phase, message, confirmed)
    if group.is_paused:
        return GroupDecision(_phase(drains), "paused", confirmed)
    waits = next((drain for drain in drains if drain.phase in _UNPLANNED), None)
    if waits is not None:
        return GroupDecision(_phase(drains), f"node {waits.node} is being planned", confirmed)
    node = view.candidates[0]
    acts = (*confirmed, PlanNode(node))
    return GroupDecision(_phase(drains), f"node {node} is planned next", acts)


def _abort(drains: Sequence[GroupDrain]) -> GroupDecision:
    left = [drain for drain in drains if not drain.is_undone]
    message = f"{len(left)} nodes are being undone" if left else "all is undone"
    acts = tuple(SetConfirm(each.name, "Aborted") for each in left if each.confirm != "Aborted")
    return GroupDecision(GroupPhase.ABORTED, message, acts)


def _confirmations(group: DrainGroup, drains: Sequence[GroupDrain]) -> Iterator[SetConfirm]:
    """Confirm the first planned nodes, as many as the partition says."""
    if group.is_paused:
        return
    left = group.partition - sum(drain.is_confirmed for drain in drains)
    ready = (
        drain
        for drain in drains
        if drain.phase is DrainPhase.WAITING and drain.confirm == "WaitForConfirm"
    )
    for drain in list(ready)[: max(0, left)]:
        yield SetConfirm(drain.name, "Confirmed")


def _limit(view: GroupView) -> str:
    """Return why no further node is drained, in a line; "" if one is."""
    group, number = view.group, len(view.drains)
    if group.most is not None and number >= group.most:
        return f"maxNodeCount is {group.most}"
    if group.reserved is not None and view.free < group.reserved:
        after = f"with one more node drained {view.free:.0f} % of the others would be free"
        return f"percentageOfResourceReserved is {group.reserved}: {after}"
    return ""


def _planned(drains: Sequence[GroupDrain], limit: str) -> tuple[GroupPhase, str]:
    """The phase once no further node is to be planned."""
    open_ones = [drain for drain in drains if not _is_over(drain)]
    reason = limit or "all its nodes are planned"
    if open_ones:
        blocked = [drain for drain in open_ones if drain.phase is DrainPhase.BLOCKED]
        about = f"; node {blocked[0].node} is blocked: {blocked[0].message}" if blocked else ""
        is_planned = not any(drain.phase in _UNPLANNED for drain in open_ones)
        otherwise = GroupPhase.WAITING if is_planned else GroupPhase.PLANNING
        return _phase(drains, otherwise), f"{reason}{about}"
    failed = any(drain.is_failed for drain in drains)
    return (GroupPhase.FAILED if failed else GroupPhase.SUCCEEDED), _ended(drains)


def _is_over(drain: GroupDrain) -> bool:
    is_shown = drain.is_dry_run and drain.phase is DrainPhase.WAITING
    return is_shown or drain.is_failed or drain.phase is DrainPhase.DRAINED


def _ended(drains: Sequence[GroupDrain]) -> str:
    drained = sum(drain.phase is DrainPhase.DRAINED for drain in drains)
    return f"{drained} of {len(drains)} nodes are drained"


def _phase(drains: Sequence[GroupDrain], otherwise: GroupPhase = GroupPhase.PLANNING) -> GroupPhase:
    moves = any(drain.is_confirmed and drain.phase in _MOVING for drain in drains)
    return GroupPhase.RUNNING if moves else otherwise


def group_status(
    view: GroupView, decision: GroupDecision, selected: int, ended_at: str | None
) -> Object:
    """The status to write; ``None`` removes a field."""
    drains = view.drains
    phases = Counter(drain.phase for drain in drains)
    return {
        "phase": decision.phase.value,
        "message": decision.message,
        "endTime": ended_at,
        "counts": {
            "selected": selected,
            "planned": len(drains),
            "confirmed": sum(drain.is_confirmed for drain in drains),
            "blocked": phases[DrainPhase.BLOCKED],
            "drained": phases[DrainPhase.DRAINED],
            "failed": sum(drain.is_failed for drain in drains),
        },
        "nodes": [
            {"name": each.node, "drainNode": each.name, "phase": each.phase, "why": each.message}
            for each in drains[:MOST_LISTED]
        ],
        "unlistedNodes": max(0, len(drains) - MOST_LISTED),
    }
