"""NUMA nodes of a node that could take a pod, as hints by resource. No IO.

Koordinator's ``generateResourceHints`` (``plugins/nodenumaresource/resource_manager.go``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from koord_scheduler.extension_points.topology_hints import Mask, NUMAHint, mask_of
from koord_scheduler.plugins.node_numa_resource.allocator import CannotAllocate, NodeAllocator
from koord_scheduler.plugins.node_numa_resource.node_allocation import added, subtracted
from koord_scheduler.plugins.node_numa_resource.policies import NUMATopologyPolicy
from koord_scheduler.plugins.node_numa_resource.scores import AmountScorer

Hints = dict[str, list[NUMAHint]]


def generate_hints(
    allocator: NodeAllocator,
    policy: NUMATopologyPolicy,
    scorer: AmountScorer,
    near: Mask | None = None,
) -> Hints:
    """Hints for each requested resource that NUMA nodes count: all sets of nodes that have enough.

    With ``near``, those alone that have one of these nodes. The smallest sets are preferred; with
    the policy Restricted all are. There are none where no set of nodes has enough of everything.
    """
    zones = allocator.machine.zones
    requests = allocator.request.amplified
    counted = [name for name in requests if any(name in has for has in zones.values())]
    found: Hints = {name: [] for name in counted}
    for nodes in _sets_of(list(zones)):
        mask = mask_of(nodes)
        if near is not None and not mask & near:
            continue
        try:
            allocator.amounts(mask)
        except CannotAllocate:
            continue
        has = added(zones[node] for node in nodes)
        taken = subtracted(has, added(allocator.free[node] for node in nodes))
        hint = NUMAHint(mask, score=scorer.score(taken, has, requests))
        for name in counted:
            if all(allocator.free[node].get(name) for node in nodes):
                found[name].append(hint)
    return {name: _with_preferences(hints, policy) for name, hints in found.items()}


def _sets_of(nodes: Sequence[int]) -> list[tuple[int, ...]]:
    return [some for size in range(1, len(nodes) + 1) for some in combinations(nodes, size)]


def _with_preferences(hints: Sequence[NUMAHint], policy: NUMATopologyPolicy) -> list[NUMAHint]:
    sizes = [hint.mask.bit_count() for hint in hints if hint.mask is not None]
    fewest = min(sizes, default=0)
    is_restricted = policy is NUMATopologyPolicy.RESTRICTED
    return [
        hint._replace(preferred=is_restricted or size == fewest)
        for hint, size in zip(hints, sizes, strict=True)
    ]
