"""One step of a pool: what becomes of its moves, and which nodes go where. No IO.

Each act may be repeated, and is lost without harm: the next step sees what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from koord_model.times import rfc3339

from koord_descheduler.tide.core.leaving_nodes import plan_leaving
from koord_descheduler.tide.core.node_marks import LastMove, Side, marked
from koord_descheduler.tide.core.pool_state import PoolState, TideMove
from koord_descheduler.tide.core.returning_nodes import plan_returns
from koord_descheduler.tide.core.side_requests import SideRequests
from koord_descheduler.tide.core.tide_drain import TideDrain
from koord_descheduler.tide.core.tide_nodes import TideNode, by_name, left_nodes

MOST_MARKS = 100
"""Nodes that get labels each time."""


class MarkNode(NamedTuple):
    """Give a node the labels and the taint of its side."""

    node: str
    side: Side
    is_reserved: bool


class BeginMove(NamedTuple):
    """Make the DrainNode of a move."""

    move: TideMove


class EndMove(NamedTuple):
    """Note what became of a move, with the node's new side if it is done."""

    drain: TideDrain
    last: LastMove


class DropDrain(NamedTuple):
    """Delete the DrainNode of a move that was noted: that uncordons the node."""

    drain: TideDrain


class CleanNode(NamedTuple):
    """Take a node out of the pool."""

    node: str


class KeepPoolFinalizer(NamedTuple):
    """Have the pool's deletion wait until its nodes are clean, or no more."""

    keep: bool


TideAct = MarkNode | BeginMove | EndMove | DropDrain | CleanNode | KeepPoolFinalizer


class TidePlan(NamedTuple):
    """Acts in order; ``moves`` are those that begin, ``stay`` nodes that cannot leave, and why.

    ``requested`` is the percentage of the online side, ``message`` all of it in a line.
    """

    acts: tuple[TideAct, ...]
    moves: tuple[TideMove, ...] = ()
    stay: Mapping[str, str] = {}
    requested: float = 0.0
    message: str = ""


def plan_pool(state: PoolState) -> TidePlan:
    """Take one step."""
    ending = tuple(_ending(state))
    if state.pool.is_deleted:
        acts = (*ending, *_leave(state))
        return TidePlan(acts, message="the pool is deleted: its nodes become as others")
    requests = _requests(state)
    returns = plan_returns(state, requests)
    moves, stay = returns.moves, dict[str, str]()
    if not (moves or returns.lack or state.moving(Side.ONLINE)):
        leaving = plan_leaving(state, requests)
        moves, stay = leaving.moves, leaving.stay
    marks = () if state.pool.is_dry_run else _marks(state, {move.node for move in moves})
    begun = () if state.pool.is_dry_run else tuple(map(BeginMove, moves))
    cleaned = (CleanNode(name) for name in left_nodes(state.cluster, state.pool))
    acts = (KeepPoolFinalizer(keep=True), *ending, *cleaned, *marks, *begun)
    message = _message(state, moves, returns.lack, stay)
    return TidePlan(acts, tuple(moves), stay, requests.percent, message)


def _requests(state: PoolState) -> SideRequests:
    """The requests of the online side, with those of pods that have still to leave for it."""
    online = [node.name for node in state.on(Side.ONLINE)]
    leaving = [name for name in state.moving(Side.OFFLINE) if name in state.cluster.nodes]
    found = SideRequests(state.cluster, [*online, *leaving])
    for name in leaving:
        found.empty_node(name)
    return found


def _ending(state: PoolState) -> Iterator[TideAct]:
    """Acts about moves under way."""
    nodes = by_name(state.nodes)
    for drain in state.drains:
        node = nodes.get(drain.node)
        is_noted = node is None or (node.last is not None and node.last.drain == drain.uid)
        if node is None or is_noted or state.pool.is_deleted:
            if not drain.is_deleted:
                yield DropDrain(drain)
        elif node.side is not drain.to and drain.is_done:
            yield EndMove(drain, LastMove(drain.to, state.now, True, drain.uid))
        elif why := _failure(state, drain, node):
            yield EndMove(drain, LastMove(drain.to, state.now, False, drain.uid, why))


def _failure(state: PoolState, drain: TideDrain, node: TideNode) -> str:
    if node.side is drain.to:
        return "somebody put the node there meanwhile"
    return node.unusable or drain.failure(state.now, state.pool.deadline)


def _leave(state: PoolState) -> Iterator[TideAct]:
    left = list(left_nodes(state.cluster, state.pool))
    moving = {drain.node for drain in state.drains}
    yield from (CleanNode(name) for name in left if name not in moving)
    if not left and not state.drains:
        yield KeepPoolFinalizer(keep=False)


def _marks(state: PoolState, moving: set[str]) -> Iterator[MarkNode]:
    """At most some of a large pool each time."""
    reserved = state.reserved(Side.ONLINE) | state.reserved(Side.OFFLINE)
    wanted = (
        MarkNode(node.name, node.side, node.name in reserved)
        for node in state.nodes
        if node.drain is None and node.name not in moving
    )
    return islice((mark for mark in wanted if not _is_marked(state, mark)), MOST_MARKS)


def _is_marked(state: PoolState, mark: MarkNode) -> bool:
    node = state.cluster.nodes[mark.node].node
    taints = node.spec.taints or []
    wanted = marked(node.labels, taints, state.pool, mark.side, reserved=mark.is_reserved)
    return wanted == (node.labels, taints)


def _message(state: PoolState, moves: list[TideMove], lack: str, stay: dict[str, str]) -> str:
    """The most important of all that there is to say."""
    prefix = "dry run: " if state.pool.is_dry_run else ""
    if moves:
        listed = ", ".join(move.node for move in moves[:3])
        more = f" and {len(moves) - 3} more" if len(moves) > 3 else ""
        verb = "goes" if len(moves) == 1 else "go"
        return f"{prefix}{listed}{more} {verb} {moves[0].to}: {moves[0].why}"
    if lack:
        return prefix + lack
    if state.drains:
        drain = state.drains[0]
        return f"{drain.node} is on its way {drain.to}: {drain.message or drain.phase.value}"
    if stay:
        name, why = next(iter(stay.items()))
        return f"{prefix}no node goes offline; {name}: {why}"
    resting = state.resting()
    if resting:
        until = rfc3339(max(resting.values()))
        return f"{prefix}{len(resting)} nodes stay where they are after a move, until {until}"
    return f"{prefix}no node may go offline: {len(state.on(Side.ONLINE))} are online"
