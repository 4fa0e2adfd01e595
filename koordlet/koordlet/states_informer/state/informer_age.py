"""Age of a state. No IO."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InformerAge:
    """Age of a state (pods, node, NodeSLO …) in seconds; ``None`` before the first.

    ``problem`` says why there is no newer one; "" while its source answers. ``absent`` is
    whether its source says that there is no such kind of state, as without its CRD.
    """

    age_seconds: float | None
    problem: str = ""
    absent: bool = False
