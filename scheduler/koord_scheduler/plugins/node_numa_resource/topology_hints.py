"""Hints of NUMA nodes, and merging them to one. No IO.

Koordinator's ``frameworkext/topologymanager/policy.go`` tries all combinations of hints one by
one. Which are the best, it decides by preference, then by the number of NUMA nodes; both are found
here first, so that no other combination is tried, and what follows equal beginnings is tried once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from koord_scheduler.extension_points.topology_hints import Mask, NUMAHint, bits, mask_of
from koord_scheduler.plugins.node_numa_resource.policies import NUMAExclusive, NUMANodeStatus

ANY_NODE = NUMAHint(preferred=True)
NO_NODE = NUMAHint(unsatisfied=True)

IsAllowed = Callable[[Mask], bool]


def keeps_apart(
    mask: Mask, exclusive: NUMAExclusive, statuses: Mapping[int, NUMANodeStatus]
) -> bool:
    """True if a pod on these NUMA nodes keeps apart from those of the other kind.

    A pod on several nodes does if nobody has his only ones there, one on a single node if nobody
    there has others, too. ``statuses`` are by number; a node that is missing is idle.
    """
    if exclusive is not NUMAExclusive.REQUIRED:
        return True
    foreign = NUMANodeStatus.SINGLE if mask.bit_count() > 1 else NUMANodeStatus.SHARED
    return all(statuses.get(node) is not foreign for node in bits(mask))


Resources = Sequence[Sequence[NUMAHint]]


def merge_hints(nodes: Sequence[int], resources: Resources, is_allowed: IsAllowed) -> NUMAHint:
    """The best combination of one hint of each resource, as the NUMA nodes that they share.

    A combination is preferred if all its hints are, and have the same nodes, which ``is_allowed``
    does not refuse. Preferred ones come before others, then those with fewer nodes, then with lower
    numbers, unless a later one of as many nodes has a higher score. That is no order: the result
    depends on which comes first, as in Koordinator. Without any it is all ``nodes``, not preferred.
    """
    everything = mask_of(nodes)
    common = _common_masks(everything, resources, is_allowed)
    if common:
        fewest = min((mask & everything).bit_count() for mask in common)
        best = {mask for mask in common if (mask & everything).bit_count() == fewest}
        equal = [
            [hint for hint in hints if hint.preferred and (hint.mask is None or hint.mask in best)]
            for hints in resources
        ]
        return _Combinations(everything, equal, fewest, are_equal=True).best()
    reachable = _reachable(everything, resources)[0] - {0}
    if not reachable:
        return NUMAHint(everything)
    fewest = min(mask.bit_count() for mask in reachable)
    return _Combinations(everything, resources, fewest, are_equal=False).best()


def _common_masks(everything: Mask, resources: Resources, is_allowed: IsAllowed) -> set[Mask]:
    """The nodes of all combinations that are preferred."""
    preferred = [{hint.mask for hint in hints if hint.preferred} for hints in resources]
    found: set[Mask] = set()
    for mask in set().union(*preferred) | {everything}:
        if mask is not None and all(mask in some or None in some for some in preferred):
            found.add(mask)
    return {mask for mask in found if mask & everything and is_allowed(mask & everything)}


def _reachable(everything: Mask, resources: Resources) -> list[set[Mask]]:
    """For each place, what the hints from there on can have in common."""
    found = [{everything}]
    for hints in reversed(resources):
        masks = {everything if hint.mask is None else hint.mask for hint in hints}
        found.append({mask & rest for mask in masks for rest in found[-1]})
    return found[::-1]


class _Beginning(NamedTuple):
    """Result of the hints that were chosen so far.

    ``mask`` is what they have in common, and ``score`` that of those whose nodes are exactly these.
    ``common`` is the mask of the first that has one.
    """

    mask: Mask
    score: int = 0
    unsatisfied: bool = False
    common: Mask | None = None


class _Combinations:
    """Combinations of hints that come to ``fewest`` nodes, in Koordinator's order.

    With ``are_equal`` all of them are preferred, and their hints have the same nodes.
    """

    def __init__(
        self, everything: Mask, resources: Resources, fewest: int, *, are_equal: bool
    ) -> None:
        self._everything = everything
        self._resources = resources
        self._fewest = fewest
        self._are_equal = are_equal
        self._reachable = _reachable(everything, resources)
        self._can_end_well = cache(self._find_end)
        self._known: dict[tuple[int, _Beginning, NUMAHint], NUMAHint] = {}

    def best(self) -> NUMAHint:
        """The best of them."""
        return self._after(0, _Beginning(self._everything), NUMAHint(self._everything))

    def _after(self, place: int, beginning: _Beginning, best: NUMAHint) -> NUMAHint:
        """The best after all that begin like this, if ``best`` was it before them."""
        if place == len(self._resources):
            return self._better(beginning, best)
        key = place, beginning, best
        found = self._known.get(key)
        if found is None:
            found = best
            for hint in self._resources[place]:
                longer = self._with(beginning, hint)
                if longer is not None and self._can_end_well(place + 1, longer.mask):
                    found = self._after(place + 1, longer, found)
            self._known[key] = found
        return found

    def _with(self, beginning: _Beginning, hint: NUMAHint) -> _Beginning | None:
        unsatisfied = beginning.unsatisfied or hint.unsatisfied
        if hint.mask is None:
            return beginning._replace(unsatisfied=unsatisfied)
        common = None
        if self._are_equal:
            common = hint.mask if beginning.common is None else beginning.common
            if common != hint.mask:
                return None
        mask = beginning.mask & hint.mask
        score = 0
        if mask.bit_count() == self._fewest:
            # Hints with exactly these nodes can only have come once no others were left.
            score = beginning.score if mask == beginning.mask else 0
            score += hint.score if mask == hint.mask else 0
        unsatisfied |= hint.mask.bit_count() > self._fewest
        return _Beginning(mask, score, unsatisfied, common)

    def _find_end(self, place: int, mask: Mask) -> bool:
        return any((mask & one).bit_count() == self._fewest for one in self._reachable[place])

    def _better(self, beginning: _Beginning, best: NUMAHint) -> NUMAHint:
        mask = best.mask or 0
        is_first = self._are_equal and not best.preferred
        is_narrower = self._fewest < mask.bit_count() or beginning.mask < mask
        if is_first or is_narrower or beginning.score > best.score:
            return NUMAHint(beginning.mask, self._are_equal, beginning.unsatisfied, beginning.score)
        return best
