"""Settings: rejections that put a node in quarantine, and pauses before trials. No IO."""

from __future__ import annotations

from typing import NamedTuple


class QuarantineSettings(NamedTuple):
    """So many ``rejections`` of the last ``of`` bindings are too many; pauses are in seconds."""

    rejections: int = 3
    of: int = 5
    first_pause: float = 30.0
    longest_pause: float = 1800.0
