"""Settings of LoadAwareScheduling, with amounts by the number of their resource. No IO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

DEFAULT_EXPIRATION_SECONDS = 180
Vector = tuple[int, ...]
"""Whole numbers by resource, as ``LoadSettings.resources``."""


class UsageWindow(NamedTuple):
    """Aggregated usage of a node that counts: "p95" of the last so many ``seconds``.

    With 0 seconds it is the longest window, or what the node uses now if there is none.
    """

    aggregation: str
    seconds: float = 0.0


class AggregatedThresholds(NamedTuple):
    """Per cent of what a node has, and which usage is compared with that."""

    per_cent: Vector
    window: UsageWindow


@dataclass(frozen=True)
class LoadSettings:
    """Thresholds are per cent of what a node has; 0: there is none.

    ``usage``, ``prod`` and ``aggregated`` are thresholds: ``prod`` for production pods and what
    these use together; ``aggregated``, if any, in place of ``usage``. ``score_window`` is the usage
    that counts for scores, ``None`` for that of now. ``factors`` are per cent of a limit or request
    that a pod is expected to use. ``after_scheduled`` and ``after_initialized`` are for how many
    seconds a pod is expected to use its estimate even where less is reported; 0: for none.
    """

    resources: tuple[str, ...]
    usage: Vector
    prod: Vector
    aggregated: AggregatedThresholds | None
    score_window: UsageWindow | None
    weights: Vector
    dominant_weight: int
    factors: tuple[tuple[str, int], ...]
    expiration_seconds: int = DEFAULT_EXPIRATION_SECONDS
    filters_expired: bool = True
    allows_expired: bool = False
    prod_includes_system: bool = False
    scores_prod_apart: bool = False
    after_scheduled: int = 0
    after_initialized: int = 0
    allows_custom_estimates: bool = False
