"""Short answer about a pod on all nodes that are alike. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from koord_scheduler.extension_points.topology_hints import Mask, ProviderHints
from koord_scheduler.plugins.node_numa_resource.amplified_cpu import AmplifiedCPU
from koord_scheduler.plugins.node_numa_resource.occupied_machine import OccupiedMachine
from koord_scheduler.plugins.node_numa_resource.placement import (
    CountedCPU,
    NodePlacement,
    NUMARejection,
)
from koord_scheduler.plugins.node_numa_resource.pod_needs import NUMASettings, PodNeeds


class NUMAAnswer(NamedTuple):
    """Answer of ``NodePlacement``, but for the part that depends on all pods' requests of CPU.

    If ``cpu`` is there, it has to fit first. ``score`` is ``None`` where that of the whole node
    counts, with its CPU ``counted``. Under a strict policy the pod gets everything from the NUMA
    nodes in ``affinity``; ``None``: from any.
    """

    cpu: AmplifiedCPU | None
    rejection: NUMARejection | None
    counted: CountedCPU
    score: int | None
    affinity: Mask | None


def numa_answer(
    needs: PodNeeds,
    occupied_machine: OccupiedMachine,
    settings: NUMASettings,
    others: Sequence[ProviderHints] = (),
) -> NUMAAnswer:
    """Answer for a pod on nodes like this one; ``others`` are hints for devices and such."""
    placement = NodePlacement(
        needs, occupied_machine.machine, occupied_machine.had, settings, others
    )
    mismatch = placement.mismatch
    cpu = placement.cpu if placement.cpu.is_counted and not mismatch else None
    rejection = mismatch or placement.conflict or placement.shortage()
    score = None if rejection else placement.score_of_zones()
    affinity = placement.affinity if placement.is_strict and rejection is None else None
    mask = None if isinstance(affinity, NUMARejection) else affinity
    return NUMAAnswer(cpu, rejection, placement.counted_cpu, score, mask)
