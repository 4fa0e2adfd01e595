"""A node where preemption helps a pod. No IO."""

from __future__ import annotations

from dataclasses import dataclass

from koord_scheduler.state.pod_usage import PlacedPod


@dataclass(frozen=True)
class Preemption:
    """A node on which a pod can run without its ``victims``, the most important first.

    ``pdb_violations`` is how many of them may not be evicted by their disruption budgets.
    """

    node: str
    victims: tuple[PlacedPod, ...]
    pdb_violations: int
