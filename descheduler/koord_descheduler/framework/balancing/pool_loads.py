"""Loads of a pool's nodes beside their thresholds, as columns. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from koord_model.keys import CPU, MEMORY
from koord_scheduler.state.arrays import Mask

from koord_descheduler.framework.balancing.pool_settings import PoolSettings, Thresholds
from koord_descheduler.objects.observed_node import ObservedNode
from koord_descheduler.planner.usage import NodeUsages

_Amounts = npt.NDArray[np.float64]
ALL = slice(None)
_LEAST_GAIN = 1e-9
"""Of the sum of squared loads: less is an error of rounding."""


class Audience(IntEnum):
    """The pods whose usage counts: all of a node, or those of production."""

    NODE = 0
    PROD = 1

    @property
    def word(self) -> str:
        """Koordinator's word for it."""
        return self.name.lower()


class NodeClasses(NamedTuple):
    """The nodes whose pods shall move, and the nodes that may have them, by whose usage counts."""

    sources: dict[Audience, Mask]
    targets: dict[Audience, Mask]


class PoolLoads:
    """Nodes of a pool with a report that counts, in order, and what they use by now.

    Arrays are by audience, node and resource. CPU and memory are always among the resources: the
    worse of both is the load of a node.
    """

    def __init__(
        self, pool: PoolSettings, nodes: Iterable[ObservedNode], usages: NodeUsages
    ) -> None:
        self._pool = pool
        self.usages = usages
        self.nodes = [node for node in nodes if usages.of(node.name) is not None]
        self.names = [node.name for node in self.nodes]
        self.rows = {name: row for row, name in enumerate(self.names)}
        self.resources = tuple(sorted({CPU, MEMORY, *pool.resources}))
        shape = len(self.names), len(self.resources)
        capacity = np.array([self.vector(usages.capacity(node)) for node in self.nodes], np.float64)
        self._capacity: _Amounts = capacity.reshape(shape)
        self._used: _Amounts = np.zeros((len(Audience), *shape))
        self.schedulable = np.array([node.is_schedulable for node in self.nodes], np.bool_)
        self._worst = [self.resources.index(CPU), self.resources.index(MEMORY)]
        compared = self._capacity[:, self._worst]
        self._parts: _Amounts = np.divide(
            1.0, compared, out=np.zeros_like(compared), where=compared > 0
        )
        self.refresh(self.names)
        self._find_limits()

    def vector(self, amounts: Mapping[str, float]) -> list[float]:
        """Amounts of the resources, in their order."""
        return [amounts.get(name, 0.0) for name in self.resources]

    def refresh(self, names: Iterable[str]) -> None:
        """Read what these nodes use again; other nodes than the pool's are left out."""
        for name in names:
            row = self.rows.get(name)
            usage = self.usages.of(name) if row is not None else None
            if usage is not None:
                self._used[Audience.NODE, row] = self.vector(usage.used)
                self._used[Audience.PROD, row] = self.vector(usage.prod)

    # ---- thresholds

    def _find_limits(self) -> None:
        pool = self._pool
        low, high = (pool.low, pool.prod_low), (pool.high, pool.prod_high)
        lows = [self._per_cent(low[of], low[of], of, -1) for of in Audience]
        self._highs = [self._per_cent(high[of], low[of], of, 1) for of in Audience]
        self._low, self._high = self._limits(lows), self._limits(self._highs)

    def _limits(self, per_cent: list[list[float]]) -> _Amounts:
        """Amounts of thresholds; as whole numbers, as Koordinator has them."""
        limits: _Amounts = np.floor(np.array(per_cent)[:, None] * 0.01 * self._capacity)
        free = [place for place, name in enumerate(self.resources) if not self._is_limited(name)]
        limits[..., free] = np.inf
        return limits

    def _is_limited(self, resource: str) -> bool:
        return resource in self._pool.resources

    def _per_cent(
        self, given: Thresholds, low: Thresholds, audience: Audience, sign: int
    ) -> list[float]:
        """Thresholds by resource; what has no low one has none, as in Koordinator."""
        if not self._pool.uses_deviation:
            return [given.get(name, 100.0) if name in low else 100.0 for name in self.resources]
        means = self.per_cent(audience).sum(axis=0) / max(len(self.names), 1)
        return [
            min(max(mean + sign * given.get(name, 100.0), 0.0), 100.0) if name in low else 100.0
            for name, mean in zip(self.resources, means.tolist(), strict=True)
        ]

    def per_cent(self, audience: Audience, at: int | slice = ALL) -> _Amounts:
        """Usage of nodes, or of one, in per cent of capacities; 0 where a node has none."""
        used, capacity = self._used[audience, at], self._capacity[at]
        found: _Amounts = np.zeros_like(used)
        np.divide(100.0 * used, capacity, out=found, where=capacity > 0)
        return found

    # ---- classes of nodes

    def high(self, audience: Audience) -> Mask:
        """The nodes that use more than a high threshold."""
        found: Mask = (self._used[audience] > self._high[audience]).any(axis=1)
        return found

    def low(self, audience: Audience) -> Mask:
        """The nodes that use no more than any low threshold."""
        found: Mask = (self._used[audience] <= self._low[audience]).all(axis=1)
        return found

    def classes(self) -> NodeClasses:
        """The nodes that use too much, and those that use little and can have pods."""
        high = {Audience.NODE: self.high(Audience.NODE)}
        targets = {Audience.NODE: self.low(Audience.NODE) & self.schedulable}
        if self._pool.has_prod:
            prod_high = self.high(Audience.PROD)
            high[Audience.PROD] = prod_high & ~high[Audience.NODE]
            targets[Audience.NODE] &= ~prod_high
            targets[Audience.PROD] = self.low(Audience.PROD) & self.schedulable
            targets[Audience.PROD] &= ~high[Audience.NODE]
        return NodeClasses(high, targets)

    def sources(self) -> set[str]:
        """The names of the nodes that use too much."""
        masks = self.classes().sources.values()
        return {self.names[row] for rows in masks for row in np.flatnonzero(rows).tolist()}

    def overages(self, row: int, audience: Audience) -> dict[str, float]:
        """Amounts by resource that a node uses beyond its high thresholds."""
        over = self._used[audience, row] - self._high[audience, row]
        return {
            name: amount
            for name, amount in zip(self.resources, over.tolist(), strict=True)
            if amount > 0
        }

    def scores(self, audience: Audience) -> list[int]:
        """Koordinator's scores of how much nodes use, by the weights of limited resources."""
        weights = np.array(
            [self._pool.weights.get(name, 0) * self._is_limited(name) for name in self.resources]
        )
        parts = np.minimum(self.per_cent(audience) / 100.0, 1.0)
        total = max(int(weights.sum()), 1)
        found: list[int] = (np.floor(parts * 1000).astype(np.int64) @ weights // total).tolist()
        return found

    # ---- moves

    def accepting(
        self, source: int, usage: list[float], audience: Audience, *, is_prod: bool
    ) -> Mask:
        """The nodes that stay below their high thresholds with a pod more, for the better.

        A move is for the better if loads then differ less: the variance of the loads falls.
        """
        found: Mask = np.ones(len(self.names), np.bool_)
        for each in Audience if is_prod else (Audience.NODE,):
            found &= (self._used[each] + usage <= self._high[each]).all(axis=1)
        return found & (self._gain(source, usage, audience) > _LEAST_GAIN)

    def _gain(self, source: int, usage: list[float], audience: Audience) -> _Amounts:
        """Amounts by which the sum of squared deviations falls if a pod goes to each node."""
        used = self._used[audience]
        before, after = self._loads(used), self._loads(used + usage)
        left = self._loads(used - usage)[source]
        squares = before[source] ** 2 - left**2 + before**2 - after**2
        total = before.sum()
        changed = total - before[source] + left - before + after
        gain: _Amounts = squares - (total**2 - changed**2) / len(before)
        gain[source] = -np.inf
        return gain

    def imbalance(self, audience: Audience) -> float:
        """Standard deviation of the nodes' loads, in per cent."""
        return float(100 * self._loads(self._used[audience]).std())

    def _loads(self, used: _Amounts) -> _Amounts:
        """The worse of the parts of CPU and of memory that nodes use."""
        found: _Amounts = (used[:, self._worst] * self._parts).max(axis=1)
        return found

    # ---- words

    def reason(self, row: int, audience: Audience) -> str:
        """Return why a node is a source, in Koordinator's words."""
        per_cent = self.per_cent(audience, row).tolist()
        over = self.overages(row, audience)
        infos = (
            f"{audience.word} {name} {self.usages.word}({per_cent[place]:.2f}%)"
            f">threshold({self._highs[audience][place]:.2f}%)"
            for place, name in enumerate(self.resources)
            if name in over
        )
        return f"node is overutilized, {', '.join(infos)}"

    def within(self, row: int) -> str:
        """Return why a node is below its low thresholds, in the same words."""
        per_cent = self.per_cent(Audience.NODE, row).tolist()
        return ", ".join(
            f"node {name} {self.usages.word}({used:.2f}%)<=threshold({self._pool.low[name]:.2f}%)"
            for name, used in zip(self.resources, per_cent, strict=True)
            if name in self._pool.low
        )

    def change(
        self, name: str, usage: Mapping[str, float], sign: int, audience: Audience
    ) -> dict[str, dict[str, float]]:
        """Per cent by resource before and after a pod comes (1) or goes (-1), and the threshold."""
        row = self.rows.get(name)
        if row is None:
            return {}
        used, capacity = self._used[audience, row], np.maximum(self._capacity[row], 1e-9)
        before = 100 * used / capacity
        after = before + sign * 100 * np.array(self.vector(usage)) / capacity
        columns = zip(before.tolist(), after.tolist(), self._highs[audience], strict=True)
        return {
            resource: dict(
                zip(("before", "after", "threshold"), (round(n, 2) for n in numbers), strict=True)
            )
            for resource, numbers in zip(self.resources, columns, strict=True)
        }
