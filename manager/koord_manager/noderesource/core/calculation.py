"""One pass over the numbers of all nodes: what is offered now, and why. No IO.

Every step is over whole arrays: a node alone is calculated by the same code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from koord_manager.noderesource.core.batch_resource import (
    BatchInputs,
    BatchTerms,
    Flags,
    Numbers,
    batch,
    times,
    within,
)
from koord_manager.noderesource.core.mid_resource import MidInputs, MidTerms, mid
from koord_manager.noderesource.core.outcomes import ResourceOutcome
from koord_manager.noderesource.core.smoothing import NONE, SmoothedLevels, StepBounds, move
from koord_manager.noderesource.core.table import Rows


@dataclass(frozen=True, slots=True)
class NodeTables:
    """The rows of all nodes, as ``table`` has them; ``zones`` has one more axis, of zones."""

    nodes: Rows
    accounts: Rows
    strategies: Rows
    states: Rows
    zones: Rows

    def part(self, rows: slice) -> NodeTables:
        """Some of the rows; what is written there is written here."""
        return NodeTables(
            self.nodes[rows],
            self.accounts[rows],
            self.strategies[rows],
            self.states[rows],
            self.zones[rows],
        )


@dataclass(frozen=True, slots=True)
class CalculationPass:
    """Result of a pass.

    ``offered`` is by node, class (batch, mid) and resource, ``NONE`` where nothing is; zones'
    by node, zone and resource. ``due`` are the nodes to be written, ``zones_due`` those whose
    zones are.
    """

    offered: Numbers
    outcomes: NDArray[np.int8]
    zones: Numbers
    due: Flags
    zones_due: Flags
    batch: BatchTerms
    mid: MidTerms


def calculate(
    tables: NodeTables, now: float, settled: float, tiers: tuple[bool, bool] = (True, True)
) -> CalculationPass:
    """Calculate all nodes, and keep in ``states`` how far their amounts have moved.

    ``settled`` is when a node has had time to report, beside its report interval: before, one
    without a metric, or with an old one, keeps what it has. Both are seconds since the epoch.
    ``tiers`` is whether batch and mid resources are calculated at all: those that are not stay
    as they are found.
    """
    nodes, strategies, states = tables.nodes, tables.strategies, tables.states
    left, mid_left = _batch(tables.accounts, nodes, strategies), _mid(tables)
    ratio, third = nodes["ratio"], nodes["third"]
    target = _both(times(left.amount, ratio), mid_left.amount)
    ceiling = _both(times(left.ceiling, ratio), mid_left.limit)
    moved = _moved(target, ceiling, tables, now)
    standing = _standing(nodes, strategies, states, now, settled)
    level = _level(standing, moved.level, states["level"], ceiling)
    outcomes = _outcomes(standing, target, level, _both(times(left.limit, ratio), mid_left.limit))
    leave = (standing == ResourceOutcome.WAITING)[:, None, None] | ~np.array(tiers)[:, None]
    offered = np.where(level == NONE, NONE, np.maximum(level - third, 0))
    offered = np.where(leave, nodes["offered"], offered)
    zones = _zones(tables, offered[:, 0]) if tiers[0] else tables.zones["offered"]
    fresh = standing == ResourceOutcome.LEFT
    states["moved"] = np.where(fresh[:, None, None], moved.at, states["moved"])
    states["level"] = level
    settles = states["there"] & (standing != ResourceOutcome.WAITING)
    wait = strategies["update"]
    changed = (outcomes != states["written_outcome"]) & np.array(tiers)[:, None]
    due = _due(
        offered, nodes["offered"], strategies["diff"], now - states["written"] > wait, changed
    )
    zones_due = _due(
        zones,
        tables.zones["offered"],
        strategies["diff"],
        now - states["zones_written"] > wait,
        np.zeros(zones.shape, bool),
    )
    return CalculationPass(
        offered, outcomes, zones, due & settles, zones_due & settles, left, mid_left
    )


def _batch(accounts: Rows, nodes: Rows, strategies: Rows) -> BatchTerms:
    return batch(
        BatchInputs(
            nodes["capacity"],
            nodes["reserved"],
            accounts["system"],
            accounts["used"],
            accounts["request"],
            accounts["max_used_request"],
            strategies["reclaim"],
            strategies["policy"],
            strategies["limit"],
        )
    )


def _mid(tables: NodeTables) -> MidTerms:
    nodes, accounts, strategies = tables.nodes, tables.accounts, tables.strategies
    return mid(
        MidInputs(
            nodes["capacity"],
            nodes["reserved"],
            accounts["mid_system"],
            accounts["prod_request"],
            accounts["node_used"],
            accounts["reclaimable"],
            strategies["mid_limit"],
            strategies["mid_unallocated"],
            strategies["mid_share"],
            strategies["mid_static"][:, None],
        )
    )


def _zones(tables: NodeTables, offered: Numbers) -> Numbers:
    """Compute each zone's amounts: the same formula, and in sum no more than the node's.

    Of a node that offers nothing they are set to 0 if they have an amount, as in Koordinator.
    """
    zones, strategies = tables.zones, tables.strategies
    terms = batch(
        BatchInputs(
            zones["size"],
            zones["reserved"],
            zones["system"],
            zones["used"],
            zones["request"],
            zones["max_used_request"],
            strategies["reclaim"][:, None],
            strategies["policy"][:, None],
            strategies["limit"][:, None],
        )
    )
    parts = within(times(terms.amount, tables.nodes["ratio"]), np.maximum(offered, 0))
    silent = (offered == NONE)[:, None] & (zones["offered"] == NONE).all(axis=2, keepdims=True)
    return np.where(silent, NONE, parts)


def _both(batch_amounts: Numbers, mid_amounts: Numbers) -> Numbers:
    return np.stack((batch_amounts, mid_amounts), axis=1)


def _moved(target: Numbers, ceiling: Numbers, tables: NodeTables, now: float) -> SmoothedLevels:
    states, strategies = tables.states, tables.strategies
    shape = (-1, 1, 1)
    bounds = StepBounds(
        strategies["fall"].reshape(shape),
        strategies["rise"].reshape(shape),
        strategies["step"].reshape(shape),
    )
    before = SmoothedLevels(states["level"], states["moved"])
    return move(target, before, ceiling, tables.nodes["capacity"][:, None], bounds, now)


def _standing(
    nodes: Rows, strategies: Rows, states: Rows, now: float, settled: float
) -> NDArray[np.int8]:
    """Of each node whether its metric is of use, as an outcome; LEFT where it is."""
    reported, each_settled = states["reported"], settled + strategies["report"]
    since = np.where(
        reported, states["at"] + strategies["degrade"], np.maximum(states["at"], each_settled)
    )
    held = now - since <= strategies["hold"]
    missing = np.where(states["partial"], ResourceOutcome.UNMEASURED, ResourceOutcome.MISSING)
    bad = np.where(reported, ResourceOutcome.STALE, missing)
    bad = np.where(held & (strategies["hold"] > 0), ResourceOutcome.HELD, bad)
    bad = np.where(now < each_settled, ResourceOutcome.WAITING, bad)
    standing = np.where(reported & (now <= since), ResourceOutcome.LEFT, bad)
    standing = np.where(nodes["reclaimed"], ResourceOutcome.RECLAIMED, standing)
    on = strategies["enable"] & states["there"]
    return np.where(on, standing, ResourceOutcome.OFF).astype(np.int8)


def _level(
    standing: NDArray[np.int8], moved: Numbers, before: Numbers, ceiling: Numbers
) -> Numbers:
    each = standing[:, None, None]
    level = np.where(each == ResourceOutcome.LEFT, moved, NONE)
    level = np.where(each == ResourceOutcome.HELD, np.minimum(before, ceiling), level)
    return np.where(each == ResourceOutcome.WAITING, before, level)


def _outcomes(
    standing: NDArray[np.int8], target: Numbers, level: Numbers, limit: Numbers
) -> NDArray[np.int8]:
    each = np.broadcast_to(standing[:, None, None], target.shape)
    left = np.where(target >= limit, ResourceOutcome.LIMITED, ResourceOutcome.LEFT)
    left = np.where(target == 0, ResourceOutcome.NOTHING, left)
    left = np.where(level < target, ResourceOutcome.RISING, left)
    left = np.where(level > target, ResourceOutcome.FALLING, left)
    return np.where(each == ResourceOutcome.LEFT, left, each).astype(np.int8)


def _due(
    offered: Numbers,
    there: Numbers,
    threshold: NDArray[np.float64],
    overdue: Flags,
    changed: Flags,
) -> Flags:
    """True for each node of which any amount must be written."""
    shape = (-1,) + (1,) * (offered.ndim - 1)
    gone = (offered == NONE) != (there == NONE)
    moved = np.abs(offered - there) > threshold.reshape(shape) * np.maximum(there, 0)
    late = overdue.reshape(shape) & ((offered != there) | changed)
    found: Flags = (gone | moved | late).any(axis=tuple(range(1, offered.ndim)))
    return found
