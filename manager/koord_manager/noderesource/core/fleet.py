"""Batch and mid resources of all nodes: updated one by one, calculated all at once. No IO.

What is summed up of a node's pods is summed up again only after its pods, its metric or its
zones changed. Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from koord_model.decision import Decision

from koord_manager.noderesource.core.calculation import CalculationPass, NodeTables, calculate
from koord_manager.noderesource.core.desired_node import DesiredNode
from koord_manager.noderesource.core.documents import NO_STATUS
from koord_manager.noderesource.core.node_state import (
    CpuMemory,
    MetricSummary,
    NodeState,
    NumaZone,
    metric_summary,
)
from koord_manager.noderesource.core.outcomes import TIERS, ResourceOutcome
from koord_manager.noderesource.core.pod_totals import account, zone_totals
from koord_manager.noderesource.core.pods import PodSummary
from koord_manager.noderesource.core.realtime_overcommit import NodeLoad
from koord_manager.noderesource.core.reasons import Reasons
from koord_manager.noderesource.core.smoothing import NONE
from koord_manager.noderesource.core.table import (
    ACCOUNT,
    NODE,
    STATE,
    STRATEGY,
    ZONE,
    Rows,
    account_row,
    grown,
    node_row,
    strategy_row,
    zone_row,
)
from koord_manager.noderesource.core.usage import ClusterUsage, cluster_usage
from koord_manager.slo_config.core.colocation import ColocationStrategy

MOST_REMEMBERED = 32
"""Outcomes in a node's history."""

PART = 256
"""Rows that are calculated at once: some milliseconds, also where all of them change."""

_EMPTY = MetricSummary()
_WAITING = ResourceOutcome.WAITING
_PLACES = ((0, 0), (0, 1), (1, 0), (1, 1))


class OutcomeChange(NamedTuple):
    """An amount whose outcome became another one; the amount is ``NONE`` for none."""

    at: float
    tier: int
    resource: int
    outcome: ResourceOutcome
    offered: int


class DesiredZone(NamedTuple):
    """Desired amounts of a zone of the NodeResourceTopology: millicores and bytes."""

    name: str
    cpu: int
    memory: int


@dataclass(slots=True)
class _Node:
    row: int
    node_state: NodeState
    strategy: ColocationStrategy
    history: list[OutcomeChange]


class Fleet:
    """The nodes; pods, metrics and zones may arrive before their node."""

    def __init__(self, settled: float = 0.0, tiers: tuple[bool, bool] = (True, True)) -> None:
        """``settled`` is when nodes have had time to report, as ``calculate`` takes it.

        ``tiers`` is whether batch and mid resources are calculated.
        """
        self.settled = settled
        self._tiers = tiers
        self.places = tuple(place for place in _PLACES if tiers[place[0]])
        """Calculated amounts by class and resource, in the order of ``decisions``."""
        self._nodes: dict[str, _Node] = {}
        self._names: list[str] = []
        self._free: list[int] = []
        self._pods: dict[str, dict[str, PodSummary]] = {}
        self._status: dict[str, tuple[bytes, float | None]] = {}
        self._whole: dict[str, tuple[bytes, float | None]] = {}
        self._zones: dict[str, tuple[NumaZone, ...]] = {}
        self._stale: set[str] = set()
        self._tables = NodeTables(
            np.zeros(0, NODE),
            np.zeros(0, ACCOUNT),
            np.zeros(0, STRATEGY),
            np.zeros(0, STATE),
            np.zeros((0, 2), ZONE),
        )
        self._passes: dict[int, CalculationPass] = {}
        self.refused: dict[str, str] = {}
        """Errors of nodes' metrics, by node."""
        self.partial: set[str] = set()
        """Nodes whose metric has no usage of the system."""

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    # ---- changes

    def node(
        self, name: str, node_state: NodeState, strategy: ColocationStrategy, now: float
    ) -> None:
        """A node is there, or changed, or its strategy did."""
        known = self._nodes.get(name)
        if known is None:
            known = self._nodes[name] = _Node(self._row(name), node_state, strategy, [])
            state = self._tables.states[known.row]
            level = np.where(
                (offered := np.array(node_row(node_state)[-1])) == NONE,
                NONE,
                offered + np.array((node_state.third_batch, node_state.third_mid)),
            )
            # Nothing is known of what was written before, or when: it counts as written now.
            state["there"], state["reported"], state["at"] = True, False, now
            state["written"] = state["zones_written"] = state["moved"] = now
            state["level"], state["outcome"], state["written_outcome"] = level, -1, -1
            self._stale.add(name)
        if node_state.reserved != known.node_state.reserved:
            self._stale.add(name)
        known.node_state, known.strategy = node_state, strategy
        self._tables.nodes[known.row] = node_row(node_state)
        self._tables.strategies[known.row] = strategy_row(strategy)

    def drop(self, name: str) -> None:
        """Delete a node, its metric and its zones; its pods are deleted separately."""
        known = self._nodes.pop(name, None)
        for kept in (self._status, self._whole, self._zones, self.refused):
            kept.pop(name, None)
        self._stale.discard(name)
        self.partial.discard(name)
        if known is not None:
            self._names[known.row] = ""
            self._free.append(known.row)
            for table in (self._tables.nodes, self._tables.accounts, self._tables.strategies):
                table[known.row] = np.zeros((), table.dtype)
            self._tables.states[known.row] = np.zeros((), STATE)
            self._tables.zones[known.row] = np.zeros((), ZONE)

    def pod(self, key: str, before: PodSummary | None, after: PodSummary | None) -> None:
        """A pod came, changed or went; ``key`` is "namespace/name"."""
        if before is not None and (after is None or after.node != before.node):
            there = self._pods.get(before.node, {})
            there.pop(key, None)
            if not there:
                self._pods.pop(before.node, None)
            self._stale.add(before.node)
        if after is not None and after.node:
            self._pods.setdefault(after.node, {})[key] = after
            self._stale.add(after.node)

    def metric(self, name: str, status: bytes | None, received: float | None = None) -> None:
        """The node's newest metric: its status' JSON.

        ``received`` is when it came, where it came straight from the node: its own clock does not
        count then.
        """
        if status is None:
            self._status.pop(name, None)
            self._whole.pop(name, None)
        else:
            self._status[name] = (status, received)
        self._stale.add(name)

    def topology(self, name: str, zones: Sequence[NumaZone]) -> None:
        """The zones of the node's NodeResourceTopology; empty without that object."""
        before = self._zones.get(name, ())
        if zones:
            self._zones[name] = tuple(zones)
        else:
            self._zones.pop(name, None)
        if tuple(zones) != before:
            self._stale.add(name)

    def written(self, name: str, now: float) -> None:
        """Record that a node's desired amounts have been written."""
        known = self._nodes.get(name)
        if known is not None:
            state = self._tables.states[known.row]
            state["written"], state["written_outcome"] = now, state["outcome"]

    def zones_written(self, name: str, now: float) -> None:
        """Record that the desired amounts of a node's zones have been written."""
        known = self._nodes.get(name)
        if known is not None:
            self._tables.states[known.row]["zones_written"] = now

    # ---- results

    def sum_up(self, now: float, most: int) -> bool:
        """Sum up the pods of ``most`` nodes that changed; whether there are more of them.

        ``calculate`` does it with all that are left: this is for not doing it all at once.
        """
        for name in list(islice(self._stale, most)):
            self._stale.discard(name)
            if name in self._nodes:
                self._sum_up(name, now)
        return bool(self._stale)

    def calculate(self, now: float) -> tuple[list[str], list[str]]:
        """Calculate all nodes; the names of those to be written, and of those whose zones are."""
        self.sum_up(now, len(self._stale))
        due: list[str] = []
        zones_due: list[str] = []
        for part in range(self.parts):
            some, zones_of_some = self.calculate_part(part, now)
            due += some
            zones_due += zones_of_some
        return due, zones_due

    @property
    def parts(self) -> int:
        """Number of parts in which all nodes can be calculated, one after the other."""
        return -(-len(self._names) // PART)

    def names(self, part: int) -> list[str]:
        """The nodes of a part."""
        return [name for name in self._names[part * PART : (part + 1) * PART] if name]

    def calculate_part(self, part: int, now: float) -> tuple[list[str], list[str]]:
        """Calculate the nodes of one part; names are as ``calculate`` has them."""
        rows = slice(part * PART, (part + 1) * PART)
        done = self._passes[part] = calculate(
            self._tables.part(rows), now, self.settled, self._tiers
        )
        self._remember(done, rows, now)
        names = self._names[rows]
        return _select(names, done.due), _select(names, done.zones_due)

    def desired(self, name: str) -> DesiredNode:
        """The desired state of the node by the last pass; empty while it waits to be calculated."""
        known = self._nodes.get(name)
        done = self._last(known)
        if known is None or done is None or done.outcomes[known.row % PART, 0, 0] == _WAITING:
            return DesiredNode()
        offered = done.offered[known.row % PART]
        resources = {
            TIERS[tier][resource]: _or_none(offered[tier, resource])
            for tier, resource in self.places
        }
        annotations = self._reasons(known, done).annotations() if self._tiers[0] else {}
        return DesiredNode(resources, {}, annotations, self.decisions(name))

    def desired_zones(self, name: str) -> tuple[DesiredZone, ...]:
        """Return the desired amounts of the node's zones by the last pass."""
        known, zones = self._nodes.get(name), self._zones.get(name, ())
        done = self._last(known)
        if known is None or done is None:
            return ()
        # Zones that arrived after the pass are not among those calculated.
        both = zip(zones, done.zones[known.row % PART].tolist(), strict=False)
        return tuple(DesiredZone(zone.name, *row) for zone, row in both if NONE not in row)

    def decisions(self, name: str) -> tuple[Decision, ...]:
        """Return the reason of each amount, by the last pass."""
        known = self._nodes.get(name)
        done = self._last(known)
        if known is None or done is None:
            return ()
        reasons = self._reasons(known, done)
        return tuple(reasons.decision(*place) for place in self.places)

    def history(self, name: str) -> tuple[OutcomeChange, ...]:
        """The outcomes of a node, the oldest first."""
        known = self._nodes.get(name)
        return tuple(known.history) if known else ()

    def status(self, name: str) -> bytes | None:
        """The newest status of a node's NodeMetric; ``None`` of one that has not reported."""
        status, _ = self._status.get(name, (None, None))
        return None if status == NO_STATUS else status

    def strategy(self, name: str) -> ColocationStrategy | None:
        """Return a node's strategy."""
        known = self._nodes.get(name)
        return known.strategy if known else None

    def load(self, name: str, now: float, guaranteed: int = 0) -> NodeLoad | None:
        """Requests and usage of a node's pods; ``guaranteed`` as ``NodeLoad`` has it.

        CPU is in units of the reference's, as requests are.
        """
        known = self._nodes.get(name)
        if known is None:
            return None
        account, state = self._tables.accounts[known.row], self._tables.states[known.row]
        fresh = bool(state["reported"]) and now - state["at"] <= known.strategy.degrade_seconds
        raw, speed = known.node_state.allocatable, known.node_state.ratio
        cpu, memory = account["used"].tolist()
        return NodeLoad(
            CpuMemory(int(raw.cpu * speed), raw.memory),
            CpuMemory(*account["native_request"].tolist()),
            CpuMemory(int(cpu * speed), memory),
            int(guaranteed * speed),
            fresh,
        )

    def usage(self, now: float) -> ClusterUsage:
        """Return what all nodes use and offer, for people."""
        return cluster_usage(self._names, self._tables, now)

    # ---- inside

    def _last(self, known: _Node | None) -> CalculationPass | None:
        """The pass that has a node, in the row of its part."""
        done = self._passes.get(known.row // PART) if known is not None else None
        there = known is not None and done is not None and known.row % PART < len(done.offered)
        return done if there else None

    def _row(self, name: str) -> int:
        if not self._free:
            number = len(self._names)
            more = max(64, number)
            self._grow(number + more)
            self._names.extend([""] * more)
            self._free.extend(range(number + more - 1, number - 1, -1))
        row = self._free.pop()
        self._names[row] = name
        return row

    def _grow(self, number: int) -> None:
        was = self._tables
        self._tables = NodeTables(
            grown(was.nodes, number),
            grown(was.accounts, number),
            grown(was.strategies, number),
            grown(was.states, number),
            grown(was.zones, number),
        )

    def _sum_up(self, name: str, now: float) -> None:
        known = self._nodes[name]
        metric, at = self._metric(name)
        summed = account(metric, self._pods.get(name, {}))
        self._tables.accounts[known.row] = account_row(summed, metric)
        state = self._tables.states[known.row]
        state["partial"] = name in self.partial
        if at is not None:
            state["reported"], state["at"] = True, at
        elif state["reported"]:
            state["reported"], state["at"] = False, now
        zones = self._zones.get(name, ())
        self._room_for(len(zones))
        rows = self._tables.zones[known.row]
        rows[:] = np.zeros((), ZONE)
        parts = zone_totals(metric, summed, known.node_state.reserved, zones)
        for place, (zone, part) in enumerate(zip(zones, parts, strict=True)):
            rows[place] = zone_row(zone, part)

    def _metric(self, name: str) -> tuple[MetricSummary, float | None]:
        """The metric that counts, and when it is from.

        No sample is no offer: a report without the system's usage leaves the last whole one in
        force until that is too old.
        """
        newest = self._status.get(name)
        self.refused.pop(name, None)
        self.partial.discard(name)
        if newest is None:
            return _EMPTY, None
        try:
            metric = metric_summary(newest[0])
        except ValueError as error:
            self.refused[name] = f"NodeMetric of {name} {error} (counts as missing)"
            return _EMPTY, None
        if metric.is_whole:
            self._whole[name] = newest
            return metric, metric.updated if newest[1] is None else newest[1]
        self.partial.add(name)
        whole = self._whole.get(name)
        counts = "counts as missing" if whole is None else "the last whole one counts"
        self.refused[name] = f"NodeMetric of {name} has no systemUsage ({counts})"
        if whole is None:
            return _EMPTY, None
        metric = metric_summary(whole[0])
        return metric, metric.updated if whole[1] is None else whole[1]

    def _room_for(self, zones: int) -> None:
        was = self._tables.zones
        if zones > was.shape[1]:
            wider = np.zeros((len(was), zones), ZONE)
            wider[:, : was.shape[1]] = was
            tables = self._tables
            self._tables = NodeTables(
                tables.nodes, tables.accounts, tables.strategies, tables.states, wider
            )

    def _remember(self, done: CalculationPass, rows: slice, now: float) -> None:
        states, names = self._tables.states[rows], self._names[rows]
        new = (done.outcomes != states["outcome"]) & states["there"][:, None, None]
        new &= np.array(self._tiers)[:, None]
        for row, tier, resource in np.argwhere(new).tolist():
            history = self._nodes[names[row]].history
            outcome = ResourceOutcome(done.outcomes[row, tier, resource])
            offered = int(done.offered[row, tier, resource])
            history.append(OutcomeChange(now, tier, resource, outcome, offered))
            del history[:-MOST_REMEMBERED]
        states["outcome"] = done.outcomes

    def _reasons(self, known: _Node, done: CalculationPass) -> Reasons:
        return Reasons(
            known.node_state,
            known.strategy,
            self._tables.accounts[known.row],
            self._tables.states[known.row]["level"],
            done,
            known.row % PART,
        )


def _select(names: Sequence[str], due: Rows) -> list[str]:
    return [names[row] for row in np.flatnonzero(due).tolist()]


def _or_none(amount: Any) -> int | None:
    return None if amount == NONE else int(amount)
