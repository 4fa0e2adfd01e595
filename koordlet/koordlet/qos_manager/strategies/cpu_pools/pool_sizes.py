"""Sizes of named pools: what their pods need, without flapping, and in proportion. No IO.

The formulas are Katalyst's: ``EstimateContainerCPUUsage`` and ``normalizePoolSizes`` of its
SysAdvisor. Where it takes a container's load average, this takes the CPUs that a pod uses or waits
for: milliseconds of waiting for each second of CPU used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

BUFFER = 1.25
"""Of the CPU that is used."""
DEADBAND = 0.5
"""CPUs: a pool that is too large by less stays."""
LEAST_REST = 4
"""CPUs that stay outside of all pools, or one for each NUMA node if those are more."""


class PoolSize(NamedTuple):
    """CPUs of a pool; since when (steady seconds) it needed fewer, and at most how many."""

    cpus: int = 0
    since: float | None = None
    most: float = 0.0


def need_of(use: float | None, wait: float | None, request: float, limit: float | None) -> float:
    """Cores that a pod needs: ``use`` in cores, ``wait`` in ms for each second of CPU used.

    Without a measurement it is what it requests. What waits because of its own ``limit`` needs no
    CPUs.
    """
    if use is None or not math.isfinite(use) or use < 0:
        return request
    waiting = wait if wait is not None and math.isfinite(wait) and wait > 0 else 0.0
    load = use * (1 + waiting / 1000)
    return max(BUFFER * use, load if limit is None else min(load, limit))


def resize(before: PoolSize, need: float, steady: float, shrink_after: float) -> PoolSize:
    """The size for ``need`` cores: more at once, less once it was so for a time."""
    least = max(math.ceil(need - 1e-6), 1)
    if least >= before.cpus or math.ceil(need + DEADBAND) >= before.cpus:
        return PoolSize(max(least, before.cpus))
    since = steady if before.since is None else before.since
    most = max(need, before.most)
    if steady - since < shrink_after:
        return PoolSize(before.cpus, since, most)
    return PoolSize(max(math.ceil(most - 1e-6), 1))


def in_proportion(sizes: Mapping[str, int], available: int) -> Mapping[str, int]:
    """The sizes, or if they are too many together their shares; at least 1 each.

    Empty where there are fewer CPUs than pools.
    """
    total = sum(sizes.values())
    if total <= available:
        return sizes
    if available < len(sizes):
        return {}
    found = {name: -(-size * available // total) for name, size in sizes.items()}
    while sum(found.values()) > available:
        large = [name for name in sorted(found) if found[name] > 1]
        found[max(large, key=lambda name: found[name] / sizes[name])] -= 1
    return found
