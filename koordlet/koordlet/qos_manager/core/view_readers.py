"""Sources that a view offers to strategies: windows of measurements, and cgroups. No IO here.

``view_builder`` implements both; the empty ones are for a node that has just started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from koord_host.knobs.forms import Value


class WindowStats(NamedTuple):
    """A series over a window, in the kind's unit; times are seconds since the epoch."""

    avg: float
    last: float
    most: float
    points: int
    first_at: float
    last_at: float


class MetricHistory(Protocol):
    """Measurements over windows that end now."""

    def windows(self, kind: str, seconds: float) -> Mapping[tuple[str, ...], WindowStats]:
        """Every series of a kind (``metric_kinds``) with points in the last ``seconds``.

        By its labels. A round computes each window once.

        Raises:
            KeyError: no such kind.
        """
        ...


class EmptyHistory:
    """``MetricHistory`` of a node that has just started."""

    def windows(self, kind: str, seconds: float) -> Mapping[tuple[str, ...], WindowStats]:
        """Nothing."""
        return {}


class CgroupReader(Protocol):
    """The node's cgroups as they are in this round; what was read once is not read again.

    Groups are named as ``Layout`` names them, knobs as ``koord_host.knobs.table`` does.
    """

    def now(self, group: str, knob: str) -> Value | None:
        """The value in the kernel file; ``None`` if it is missing or cannot be parsed."""
        ...

    def base(self, group: str, knob: str) -> Value | None:
        """The value without strategies.

        That is the hooks' value, else the value before the first change, else ``now``.
        """
        ...

    def below(self, group: str, subsystem: str) -> tuple[str, ...]:
        """Every group below, at any depth, parents before children; sandboxes too."""
        ...


class EmptyCgroups:
    """``CgroupReader`` of a node that has none."""

    def now(self, group: str, knob: str) -> Value | None:
        """None."""
        return None

    def base(self, group: str, knob: str) -> Value | None:
        """None."""
        return None

    def below(self, group: str, subsystem: str) -> tuple[str, ...]:
        """Nothing."""
        return ()
