"""The status of a pool, as the API has it. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from koord_kube.definitions.drain_spec import MOST_LISTED
from koord_kube.protocol.api import Object

from koord_descheduler.tide.core.node_marks import Side
from koord_descheduler.tide.core.pool_state import PoolState
from koord_descheduler.tide.core.tide_plan import TidePlan


def pool_status(state: PoolState, plan: TidePlan) -> Object:
    """The status to write: Katalyst's fields, and what else there is to say."""
    reserves = {side: state.reserved(side) for side in Side}
    reserved = reserves[Side.ONLINE] | reserves[Side.OFFLINE]
    return {
        "reserveNodes": {f"{side.value}Nodes": sorted(reserves[side]) for side in Side},
        "tideNodes": {"nodes": [node.name for node in state.nodes if node.name not in reserved]},
        "message": plan.message,
        "requestedPercent": int(plan.requested),
        "counts": pool_counts(state),
        "nodes": list(islice(_nodes(state, plan), MOST_LISTED)),
    }


def pool_counts(state: PoolState) -> dict[str, int]:
    """Numbers of nodes."""
    return {
        "online": len(state.on(Side.ONLINE)),
        "offline": len(state.on(Side.OFFLINE)),
        "toOnline": len(state.moving(Side.ONLINE)),
        "toOffline": len(state.moving(Side.OFFLINE)),
        "unusable": sum(bool(node.unusable) for node in state.nodes if node.drain is None),
    }


def _nodes(state: PoolState, plan: TidePlan) -> Iterator[dict[str, str]]:
    """Nodes on their way first."""
    begun = {move.node: move.why for move in plan.moves}
    sides = {node.name: node.side.value for node in state.nodes}
    for drain in state.drains:
        why = f"it goes {drain.to}: {drain.message or drain.phase.value}"
        yield {"name": drain.node, "side": sides.get(drain.node, ""), "state": "Moving", "why": why}
    for name, why in begun.items():
        yield {"name": name, "side": sides[name], "state": "Moving", "why": why}
    for name, why in plan.stay.items():
        yield {"name": name, "side": sides[name], "state": "Stays", "why": why}
    for node in state.nodes:
        if node.unusable and node.drain is None:
            yield {
                "name": node.name,
                "side": node.side.value,
                "state": "Unusable",
                "why": node.unusable,
            }
