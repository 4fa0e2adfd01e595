"""View of the cluster that the webhook needs for resizes. No IO."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from koord_manager.resize.core.sources import SourceIndex


@dataclass(frozen=True)
class ResizeView:
    """Sources of resizes, none where the gate is off; ``wall`` is the time of the epoch."""

    resize_sources: SourceIndex = field(default_factory=SourceIndex)
    wall: Callable[[], float] = float
