"""Merge of the NUMA hints of all resources of a container, by a topology policy. No IO.

The policies are those of the kubelet's topology manager, and Katalyst's ``numeric``:

- ``none``: hints do not count.
- ``best-effort``: all resources get the same nodes: those in one hint of each. Hints that all
  resources prefer and agree on come first, then the fewest nodes.
- ``restricted``: as before, but only a preferred result is admitted.
- ``single-numa-node``: as before, from hints of one node.
- ``numeric``: the aligned resources get equal nodes, preferred by at least one of them. Of any two
  resources the nodes of one contain the other's. Most preferred resources come first, then the
  fewest nodes.

Nodes are bits of a number. The order of resources and of their hints never decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from koord_model.allocation import TopologyHint

Hints = Sequence[TopologyHint]
"""The hints of one resource; none at all: there are no nodes that it could come from."""

ALIGNED = ("cpu", "memory")
"""Resources that ``numeric`` aligns, as in Katalyst."""
_MOST_STEPS = 20_000
"""Comparisons of hints in one numeric merge, some milliseconds: it runs while a pod waits."""
_ANY = TopologyHint(None, True)
_IMPOSSIBLE = TopologyHint(None, False)


class TopologyPolicy(StrEnum):
    """Rule by which hints are merged."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"
    NUMERIC = "numeric"


@dataclass(frozen=True, slots=True)
class MergedHints:
    """The hint of each resource; ``admitted`` is whether the policy allows the container."""

    hints: Mapping[str, TopologyHint]
    admitted: bool


def merge_hints(
    policy: TopologyPolicy,
    nodes: int,
    hints: Mapping[str, Hints | None],
    aligned: Sequence[str] = ALIGNED,
) -> MergedHints:
    """Merge the hints by resource; ``None``: it has no preference. ``nodes`` are the machine's."""
    if policy is TopologyPolicy.NONE:
        return MergedHints({}, admitted=True)
    if policy is TopologyPolicy.NUMERIC:
        return _numeric(hints, aligned)
    choices = [(_ANY,) if given is None else given or (_IMPOSSIBLE,) for given in hints.values()]
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        choices = [tuple(filter(_is_single, given)) for given in choices]
    best = _best(nodes, choices)
    if policy is TopologyPolicy.SINGLE_NUMA_NODE and best.nodes == nodes:
        best = TopologyHint(None, best.preferred)
    admitted = best.preferred or policy is TopologyPolicy.BEST_EFFORT
    return MergedHints(dict.fromkeys(hints, best), admitted)


def _is_single(hint: TopologyHint) -> bool:
    return hint.preferred and (hint.nodes is None or hint.nodes.bit_count() == 1)


_State = tuple[int, int | None, bool]
"""The nodes in all hints so far, those of the first hint that has any, and if it is preferred.

The second is of no more use, and left out, once the result cannot be preferred. So there are as
few states as sets of nodes, whatever the number of combinations.
"""


def _best(nodes: int, choices: Sequence[Hints]) -> TopologyHint:
    states: set[_State] = {(nodes, None, True)}
    for given in choices:
        states = {_narrowed(state, hint) for state in states for hint in given}
    most_needed = max((_narrowest(given) for given in choices), default=0)
    found = [(both, preferred) for both, _, preferred in states if both]
    if not found:
        return TopologyHint(nodes, False)
    return TopologyHint(*min(found, key=lambda hint: _rank(*hint, most_needed=most_needed)))


def _narrowed(state: _State, hint: TopologyHint) -> _State:
    both, first, preferred = state
    preferred = preferred and hint.preferred
    if hint.nodes is None:
        return both, first if preferred else None, preferred
    preferred = preferred and first in (None, hint.nodes)
    return both & hint.nodes, hint.nodes if preferred else None, preferred


def _narrowest(given: Hints) -> int:
    return min((hint.nodes.bit_count() for hint in given if hint.nodes is not None), default=0)


def _rank(both: int, preferred: bool, *, most_needed: int) -> tuple[int, int, int]:
    """The kubelet's order, the best first.

    What is not preferred is to have as many nodes as the neediest resource, else fewer, else more.
    """
    count = both.bit_count()
    if preferred:
        return 0, count, both
    if count <= most_needed:
        return 1, -count, both
    return 2, count, both


def _numeric(hints: Mapping[str, Hints | None], aligned: Sequence[str]) -> MergedHints:
    refused = MergedHints({}, admitted=False)
    if any(given is not None and not given for given in hints.values()):
        return refused
    choices = {name: (_ANY,) if given is None else given for name, given in hints.items()}
    together = {name: choices.pop(name) for name in aligned if name in choices}
    rest = sorted(choices)
    steps = iter(range(_MOST_STEPS))
    best: tuple[tuple[int, int, tuple[int, ...]], dict[str, TopologyHint]] | None = None
    for first in _aligned(together) if together else ({},):
        masks = tuple({hint.nodes for hint in first.values() if hint.nodes is not None})
        for others in _nested(masks, [_ordered(choices[name]) for name in rest], steps):
            rank = _numeric_rank(tuple(first.values()), others)
            if best is None or rank < best[0]:
                best = rank, {**first, **dict(zip(rest, others, strict=True))}
    return refused if best is None else MergedHints(best[1], admitted=True)


def _aligned(together: Mapping[str, Hints]) -> Iterator[dict[str, TopologyHint]]:
    """Choices of equal hints of the aligned resources; one without a preference fits any."""
    masks = {hint.nodes for given in together.values() for hint in given}
    for mask in sorted(masks, key=lambda mask: (mask is None, (mask or 0).bit_count(), mask or 0)):
        chosen: dict[str, TopologyHint] = {}
        for name, given in together.items():
            fitting = [hint for hint in given if hint.nodes == mask or hint == _ANY]
            if mask is None:
                fitting = [hint for hint in fitting if hint.preferred]
            if not fitting:
                break
            chosen[name] = min(fitting, key=lambda hint: (not hint.preferred, hint.nodes is None))
        if len(chosen) == len(together) and any(hint.preferred for hint in chosen.values()):
            yield chosen


def _nested(
    chosen: tuple[int, ...], choices: Sequence[Hints], steps: Iterator[int]
) -> Iterator[tuple[TopologyHint, ...]]:
    """One hint of each resource, where of any two one contains the other; until steps run out."""
    if not choices:
        yield ()
        return
    for hint in choices[0]:
        if next(steps, None) is None:
            return
        mask = hint.nodes
        if mask is None:
            more = chosen
        elif all(mask & other in (mask, other) for other in chosen):
            more = (*chosen, mask)
        else:
            continue
        for others in _nested(more, choices[1:], steps):
            yield (hint, *others)


def _ordered(given: Hints) -> Hints:
    """The likely ones first, so that a search that is cut short has found something good."""
    key = {hint: (not hint.preferred, _count(hint), hint.nodes or 0) for hint in given}
    return sorted(key, key=key.__getitem__)


def _numeric_rank(
    aligned: tuple[TopologyHint, ...], others: tuple[TopologyHint, ...]
) -> tuple[int, int, tuple[int, ...]]:
    both = (*aligned, *others)
    masks = tuple(hint.nodes or 0 for hint in both)
    return -sum(hint.preferred for hint in others), max(map(_count, both), default=0), masks


def _count(hint: TopologyHint) -> int:
    return (hint.nodes or 0).bit_count()
