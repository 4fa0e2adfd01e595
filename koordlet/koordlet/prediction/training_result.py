"""Result of a training of the peak predictors, for people. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koord_prediction.amount import ResourceAmount


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """Result of the last training: each model's percentiles ("p60" to "max"), by its UID.

    ``at`` is seconds since the epoch, 0 before the first. ``cold`` are the UIDs of pods that
    count with their request: they are too young, or have no model yet.
    """

    at: float = 0.0
    models: Mapping[str, Mapping[str, ResourceAmount]] = field(default_factory=dict)
    cold: frozenset[str] = frozenset()
