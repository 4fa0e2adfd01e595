"""Hints of NUMA nodes, and merging them to one. No IO.

Koordinator's ``frameworkext/topologymanager/policy.go``, which goes through all combinations of
hints one by one. Here a combination that cannot count is not begun, and what comes after equal
beginnings is merged once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from koord_scheduler.numa.policies import NUMAExclusive, NUMANodeStatus

Mask = int
"""NUMA nodes as bits."""


class NUMAHint(NamedTuple):
    """NUMA nodes that can give what is asked for; ``mask`` ``None`` means any.

    It is ``preferred`` if no fewer nodes could. Among equals the higher ``score`` counts. Where it
    is ``unsatisfied`` the nodes cannot give all.
    """

    mask: Mask | None = None
    preferred: bool = False
    unsatisfied: bool = False
    score: int = 0


ANY_NODE = NUMAHint(preferred=True)
NO_NODE = NUMAHint(unsatisfied=True)

IsAllowed = Callable[[Mask], bool]


def bits(mask: Mask) -> Iterator[int]:
    """The numbers of the NUMA nodes in a mask, rising."""
    return (place for place in range(mask.bit_length()) if mask >> place & 1)


def mask_of(nodes: Sequence[int]) -> Mask:
    """The mask of NUMA nodes by their numbers."""
    return sum(1 << node for node in set(nodes))


def keeps_apart(
    mask: Mask, exclusive: NUMAExclusive, statuses: Mapping[int, NUMANodeStatus]
) -> bool:
    """Whether a pod on these NUMA nodes keeps apart from those of the other kind.

    A pod on several nodes does if nobody has his only ones there, one on a single node if nobody
    there has others, too. ``statuses`` are by number; a node that is missing is idle.
    """
    if exclusive is not NUMAExclusive.REQUIRED:
        return True
    foreign = NUMANodeStatus.SINGLE if mask.bit_count() > 1 else NUMANodeStatus.SHARED
    return all(statuses.get(node) is not foreign for node in bits(mask))


class _Beginning(NamedTuple):
    """What the hints that were chosen so far come to.

    ``mask`` is what they have in common, and ``score`` that of those whose nodes are exactly these.
    ``common`` is the mask that all of them have, -1 once they differ or one is not preferred;
    ``most`` is how many nodes the largest has, 0 without any.
    """

    mask: Mask
    score: int = 0
    common: Mask | None = None
    most: int = 0
    unsatisfied: bool = False

    @property
    def may_be_preferred(self) -> bool:
        return self.common != _DIFFERENT

    def with_hint(self, hint: NUMAHint) -> _Beginning:
        common = self.common if hint.preferred else _DIFFERENT
        unsatisfied = self.unsatisfied or hint.unsatisfied
        if hint.mask is None:
            return self._replace(common=common, unsatisfied=unsatisfied)
        mask = self.mask & hint.mask
        # A hint that has exactly these nodes can only have come once they were all that is left.
        score = self.score if mask == self.mask else 0
        score += hint.score if mask == hint.mask else 0
        if common is None:
            common = hint.mask
        elif common != hint.mask:
            common = _DIFFERENT
        most = max(self.most, hint.mask.bit_count())
        return _Beginning(mask, score, common, most, unsatisfied)


_DIFFERENT = -1


def merge_hints(
    nodes: Sequence[int], resources: Sequence[Sequence[NUMAHint]], is_allowed: IsAllowed
) -> NUMAHint:
    """The best combination of one hint of each resource, as the NUMA nodes that they share.

    Preferred ones before others, then fewer nodes, then lower numbers, unless a later one of as
    many nodes has a higher score. That is no order: the result depends on which comes first, as in
    Koordinator. What ``is_allowed`` refuses is not preferred. Without any it is all ``nodes``, not
    preferred.
    """
    everything = mask_of(nodes)
    known: dict[tuple[int, _Beginning, NUMAHint], NUMAHint] = {}

    def merge(place: int, beginning: _Beginning, best: NUMAHint) -> NUMAHint:
        """The best after all combinations that begin like this, if ``best`` was it before them."""
        if not beginning.mask or (best.preferred and not beginning.may_be_preferred):
            return best
        if place == len(resources):
            return _better(_merged(beginning, is_allowed), best)
        key = place, beginning, best
        found = known.get(key)
        if found is None:
            found = best
            for hint in resources[place]:
                found = merge(place + 1, beginning.with_hint(hint), found)
            known[key] = found
        return found

    return merge(0, _Beginning(everything), NUMAHint(everything))


def _merged(one: _Beginning, is_allowed: IsAllowed) -> NUMAHint:
    is_whole = not one.most or one.most == one.mask.bit_count()
    preferred = one.may_be_preferred and is_allowed(one.mask)
    return NUMAHint(one.mask, preferred, one.unsatisfied or not is_whole, one.score)


def _better(candidate: NUMAHint, best: NUMAHint) -> NUMAHint:
    if candidate.preferred is not best.preferred:
        return candidate if candidate.preferred else best
    size, best_size = _size(candidate), _size(best)
    if size < best_size:
        return candidate
    return candidate if size[0] == best_size[0] and candidate.score > best.score else best


def _size(hint: NUMAHint) -> tuple[int, Mask]:
    """How many nodes it has; as many are less if their numbers are lower."""
    mask = hint.mask or 0
    return mask.bit_count(), mask
