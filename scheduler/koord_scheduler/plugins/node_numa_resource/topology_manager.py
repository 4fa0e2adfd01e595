"""Merge of all providers' hints by a NUMA topology policy. No IO.

Koordinator's ``frameworkext/topologymanager``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from koord_scheduler.extension_points.topology_hints import Mask, NUMAHint, mask_of
from koord_scheduler.plugins.node_numa_resource.policies import (
    NUMAExclusive,
    NUMANodeStatus,
    NUMATopologyPolicy,
)
from koord_scheduler.plugins.node_numa_resource.topology_hints import (
    ANY_NODE,
    NO_NODE,
    keeps_apart,
    merge_hints,
)

HintsByResource = Mapping[str, Sequence[NUMAHint] | None]
"""By resource; ``None``: any NUMA node will do, none: no NUMA node will."""


class MergedHint(NamedTuple):
    """The NUMA nodes for a pod, or why there are none; with ``reasons`` it is rejected.

    A hint without a mask: the policy does not narrow the pod down.
    """

    hint: NUMAHint
    reasons: tuple[str, ...] = ()


class NUMANodes(NamedTuple):
    """The NUMA nodes of a machine by number, and who has CPUs there."""

    nodes: Sequence[int]
    statuses: Mapping[int, NUMANodeStatus]


def merge_for_policy(
    policy: NUMATopologyPolicy,
    machine: NUMANodes,
    providers: Sequence[HintsByResource],
    exclusive: NUMAExclusive = NUMAExclusive.UNSET,
) -> MergedHint:
    """Merge the hints of all providers."""
    everything = mask_of(machine.nodes)
    listed = _listed(providers)
    lacking = () if policy is NUMATopologyPolicy.BEST_EFFORT else _lacking(providers)
    if lacking:
        is_single = policy is NUMATopologyPolicy.SINGLE_NUMA_NODE
        return MergedHint(NUMAHint(None if is_single else everything), lacking)
    if policy is NUMATopologyPolicy.SINGLE_NUMA_NODE:
        listed = [[hint for hint in hints if _is_single(hint)] for hints in listed]

    def is_allowed(mask: Mask) -> bool:
        return keeps_apart(mask, exclusive, machine.statuses)

    best = merge_hints(machine.nodes, listed, is_allowed)
    if policy is NUMATopologyPolicy.BEST_EFFORT:
        return MergedHint(NUMAHint(everything) if best.unsatisfied else best)
    if policy is NUMATopologyPolicy.SINGLE_NUMA_NODE and best.mask == everything:
        best = NUMAHint(preferred=best.preferred)
    if best.preferred:
        return MergedHint(best)
    separator = "," if policy is NUMATopologyPolicy.SINGLE_NUMA_NODE else " & "
    return MergedHint(best, (f"Unaligned NUMA Hint cause {separator.join(_summary(providers))}",))


def _listed(providers: Sequence[HintsByResource]) -> list[Sequence[NUMAHint]]:
    """The hints of each resource, in the order of the resources' names (Koordinator: in any)."""
    found: list[Sequence[NUMAHint]] = []
    for provider in providers:
        if not provider:
            found.append((ANY_NODE,))
        for _, hints in sorted(provider.items()):
            found.append((ANY_NODE,) if hints is None else hints or (NO_NODE,))
    return found


def _lacking(providers: Sequence[HintsByResource]) -> tuple[str, ...]:
    return tuple(
        f"Unsatisfied NUMA {resource}"
        for provider in providers
        for resource, hints in sorted(provider.items())
        if hints is not None and not hints
    )


def _is_single(hint: NUMAHint) -> bool:
    return hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)


def _summary(providers: Sequence[HintsByResource]) -> list[str]:
    """For each resource, the NUMA nodes that it prefers and those that are possible."""
    return sorted(
        f"{resource} prefer [{_shown(hints, preferred=True)}] among [{_shown(hints)}]"
        for provider in providers
        for resource, hints in provider.items()
        if hints
    )


def _shown(hints: Sequence[NUMAHint], *, preferred: bool = False) -> str:
    return " ".join(
        _bits_of(hint.mask)
        for hint in hints
        if not hint.unsatisfied and (hint.preferred or not preferred)
    )


def _bits_of(mask: Mask | None) -> str:
    """The mask in binary digits, at least two, and an even number of them but for powers of 4."""
    if mask is None:
        return "<nil>"
    width = next((shift + 2 for shift in range(62, 0, -2) if mask > 1 << shift), 2)
    return f"{mask:0{width}b}"
