"""Usage of all nodes and its limits, by a profile's settings; a node is a row. No IO."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from koord_scheduler.plugins.load_aware.estimates import LoadEstimator
from koord_scheduler.plugins.load_aware.load_node import LoadNode
from koord_scheduler.plugins.load_aware.node_metric import NodeReport
from koord_scheduler.plugins.load_aware.pod_load import PodLoad
from koord_scheduler.plugins.load_aware.row_load import (
    SUMS,
    AssignedPod,
    RowLoad,
    UsageBasis,
    pod_share,
    row_load,
    unreported_share,
)
from koord_scheduler.plugins.load_aware.settings import LoadSettings
from koord_scheduler.state.arrays import Amounts, Mask, Rows, lengthened

_MOST_REMEMBERED = 1 << 14


class LoadTable:
    """``RowLoad`` in columns: by resource and row.

    ``sums`` has four vectors one below the other, of ``width`` resources each, ``limits`` and
    ``aggregated`` have two. ``scored`` is the capacity of nodes that have a score, 0 of all others.
    ``is_expired`` says whose report is too old.
    """

    def __init__(self, settings: LoadSettings, length: int) -> None:
        self.estimator = LoadEstimator(settings)
        self.width = width = len(settings.resources)
        self.sums: Amounts = np.zeros((SUMS * width, length))
        self.limits: Amounts = np.full((2 * width, length), np.inf)
        self.capacity: Amounts = np.zeros((width, length))
        self.scored: Amounts = np.zeros((width, length))
        self.aggregated: Mask = np.zeros((2, length), np.bool_)
        self._expires: Amounts = np.full(length, np.inf)
        self.is_expired: Mask = np.zeros(length, np.bool_)
        self._next_expiry = np.inf
        self._bases: dict[int, tuple[UsageBasis, ...]] = {}
        self._shares: dict[tuple[PodLoad, tuple[UsageBasis, ...]], Amounts] = {}

    def lengthen(self, length: int) -> None:
        """Make room for more rows, which have no node yet."""
        self.sums = lengthened(self.sums, length, 0)
        self.limits = lengthened(self.limits, length, np.inf)
        self.capacity = lengthened(self.capacity, length, 0)
        self.scored = lengthened(self.scored, length, 0)
        self.aggregated = lengthened(self.aggregated, length, fill=False)
        self._expires = lengthened(self._expires, length, np.inf)
        self.is_expired = lengthened(self.is_expired, length, fill=False)

    def set(
        self,
        row: int,
        node: LoadNode,
        report: NodeReport | None,
        pods: Iterable[AssignedPod],
        epoch: float,
    ) -> None:
        """The node in a row, anew from all that it depends on."""
        found = row_load(self.estimator, node, report, pods, epoch)
        self._bases[row] = found.bases
        self._expires[row] = found.expires
        self.is_expired[row] = epoch >= found.expires
        if epoch < found.expires:
            self._next_expiry = min(self._next_expiry, found.expires)
        self._put(row, found)

    def clear(self, row: int) -> None:
        """A row has no node any more."""
        self._expires[row] = np.inf
        self.is_expired[row] = False

    def count(self, row: int, report: NodeReport, pod: AssignedPod, sign: int) -> None:
        """A pod is on the node, or with -1 for ``sign`` not any more."""
        bases = self._bases[row]
        if pod.key in report.pods:
            share = np.array(pod_share(self.estimator, report, bases, pod))
        else:
            share = self._unreported(bases, pod.load)
        if sign > 0:
            self.sums[:, row] += share
        else:
            self.sums[:, row] -= share

    def _unreported(self, bases: tuple[UsageBasis, ...], load: PodLoad) -> Amounts:
        """Remembered: most pods are copies of others."""
        key = load, bases
        found = self._shares.get(key)
        if found is None:
            if len(self._shares) >= _MOST_REMEMBERED:
                self._shares.clear()
            found = np.array(unreported_share(self.estimator, bases, load))
            self._shares[key] = found
        return found

    def expired(self, epoch: float, *, is_earlier: bool) -> Rows | None:
        """The rows whose reports have become too old, or if it ``is_earlier`` are so no longer."""
        if epoch < self._next_expiry and not is_earlier:
            return None
        now = epoch >= self._expires
        rows = np.flatnonzero(now != self.is_expired)
        self._next_expiry = float(self._expires[~now].min(initial=np.inf))
        return rows

    def differs(self, row: int, found: RowLoad) -> bool:
        """True if a row is not what it would be anew."""
        return bool(self.sums[:, row].tolist() != found.sums)

    def _put(self, row: int, found: RowLoad) -> None:
        self.sums[:, row] = found.sums
        self.limits[:, row] = found.limits
        self.capacity[:, row] = found.capacity
        self.scored[:, row] = found.capacity if found.is_scored else 0
        self.aggregated[:, row] = found.aggregated
