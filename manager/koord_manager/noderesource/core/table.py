"""The columns in which the numbers of all nodes are kept, a row a node. No IO."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from koord_manager.noderesource.core.batch_resource import NO_LIMIT, POLICIES
from koord_manager.noderesource.core.mid_resource import UNKNOWN
from koord_manager.noderesource.core.node_state import (
    MeasuredUsage,
    MetricSummary,
    NodeState,
    NumaZone,
)
from koord_manager.noderesource.core.pod_totals import PodTotals, ZoneTotals
from koord_manager.noderesource.core.smoothing import NONE
from koord_manager.slo_config.core.colocation import (
    CalculatePolicy,
    ColocationStrategy,
    MidReclaimMode,
)

Rows = NDArray[Any]

_WHOLE, _REAL, _FLAG = "i8", "f8", "?"

NODE = np.dtype(
    [
        ("capacity", _WHOLE, 2),
        ("reserved", _WHOLE, 2),
        ("ratio", _REAL),
        ("third", _WHOLE, (2, 2)),
        ("reclaimed", _FLAG),
        ("offered", _WHOLE, (2, 2)),
    ]
)
ACCOUNT = np.dtype(
    [
        ("used", _WHOLE, 2),
        ("request", _WHOLE, 2),
        ("max_used_request", _WHOLE, 2),
        ("prod_request", _WHOLE, 2),
        ("system", _WHOLE, 2),
        ("mid_system", _WHOLE, 2),
        ("node_used", _WHOLE, 2),
        ("reclaimable", _WHOLE, 2),
        ("native_request", _WHOLE, 2),
        ("batch_used", _WHOLE, 2),
    ]
)
STRATEGY = np.dtype(
    [
        ("enable", _FLAG),
        ("reclaim", _WHOLE, 2),
        ("policy", _WHOLE, 2),
        ("limit", _WHOLE, 2),
        ("mid_static", _FLAG),
        ("mid_limit", _WHOLE, 2),
        ("mid_unallocated", _WHOLE, 2),
        ("mid_share", _WHOLE, 2),
        ("degrade", _REAL),
        ("report", _REAL),
        ("diff", _REAL),
        ("update", _REAL),
        ("fall", _WHOLE),
        ("rise", _WHOLE),
        ("step", _REAL),
        ("hold", _REAL),
    ]
)
ZONE = np.dtype(
    [
        ("size", _WHOLE, 2),
        ("used", _WHOLE, 2),
        ("request", _WHOLE, 2),
        ("max_used_request", _WHOLE, 2),
        ("system", _WHOLE, 2),
        ("reserved", _WHOLE, 2),
        ("offered", _WHOLE, 2),
    ]
)
STATE = np.dtype(
    [
        ("there", _FLAG),
        ("reported", _FLAG),
        ("partial", _FLAG),
        ("at", _REAL),
        ("written", _REAL),
        ("zones_written", _REAL),
        ("level", _WHOLE, (2, 2)),
        ("moved", _REAL, (2, 2)),
        ("outcome", "i1", (2, 2)),
        ("written_outcome", "i1", (2, 2)),
    ]
)
"""``at`` is when the metric is from, or since when there is none. Times are of the epoch.

``partial`` is whether there is one that lacks what is needed.
"""


def grown(rows: Rows, number: int) -> Rows:
    """The rows in a longer array."""
    longer = np.zeros((number, *rows.shape[1:]), rows.dtype)
    longer[: len(rows)] = rows
    return longer


def node_row(node_state: NodeState) -> tuple[Any, ...]:
    """A row of ``NODE``."""
    third = (node_state.third_batch, node_state.third_mid)
    offered = (_or(node_state.batch, NONE), _or(node_state.mid, NONE))
    return (
        node_state.capacity,
        node_state.reserved,
        node_state.ratio,
        third,
        node_state.reclaimed,
        offered,
    )


def account_row(account: PodTotals, metric: MetricSummary) -> tuple[Any, ...]:
    """A row of ``ACCOUNT``."""
    return (
        *account.high,
        account.prod_request,
        account.system,
        account.mid_system,
        _or(metric.node, UNKNOWN),
        _or(metric.reclaimable, UNKNOWN),
        account.native_request,
        account.batch_used,
    )


def strategy_row(given: ColocationStrategy) -> tuple[Any, ...]:
    """A row of ``STRATEGY``. CPU is never calculated by requests, as in Koordinator."""
    cpu = given.cpu_policy
    if cpu is CalculatePolicy.REQUEST:
        cpu = CalculatePolicy.USAGE
    smoothing = given.smoothing
    return (
        given.enable,
        (given.cpu_reclaim_percent, given.memory_reclaim_percent),
        (POLICIES.index(cpu), POLICIES.index(given.memory_policy)),
        (_limit(given.batch_cpu_percent), _limit(given.batch_memory_percent)),
        given.mid_mode is MidReclaimMode.STATIC,
        (given.mid_cpu_percent, given.mid_memory_percent),
        (given.mid_unallocated_percent, given.mid_unallocated_percent),
        (given.mid_static_cpu_percent, given.mid_static_memory_percent),
        given.degrade_seconds,
        float(given.metric_report_seconds),
        given.diff_threshold,
        float(given.update_seconds),
        smoothing.fall_percent,
        smoothing.rise_percent,
        float(smoothing.step_seconds),
        float(smoothing.hold_seconds),
    )


def zone_row(zone: NumaZone, account: ZoneTotals) -> tuple[Any, ...]:
    """A row of ``ZONE``."""
    return (
        zone.size,
        *account.high,
        account.system,
        account.reserved,
        _or(zone.batch, NONE),
    )


def _or(usage: MeasuredUsage, missing: int) -> tuple[int, int]:
    return (
        missing if usage.cpu is None else usage.cpu,
        missing if usage.memory is None else usage.memory,
    )


def _limit(percent: int | None) -> int:
    return NO_LIMIT if percent is None else percent
