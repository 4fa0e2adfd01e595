"""What a view lets strategies look into: windows of measurements, and cgroups. No IO here.

``viewing`` has the real ones; those that know nothing are for a node that has just started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from koord_host.forms import Value


class Stats(NamedTuple):
    """A series over a window, in the kind's unit; times are seconds since the epoch."""

    avg: float
    last: float
    most: float
    points: int
    first_at: float
    last_at: float


class History(Protocol):
    """What was measured, over windows that end now."""

    def windows(self, kind: str, seconds: float) -> Mapping[tuple[str, ...], Stats]:
        """Every series of a kind (``collecting.kinds``) with points in the last ``seconds``.

        By its labels. The same window asked for twice in a round costs nothing more.

        Raises:
            KeyError: no such kind.
        """
        ...


class NoHistory:
    """``History`` of a node that has just started."""

    def windows(self, kind: str, seconds: float) -> Mapping[tuple[str, ...], Stats]:
        """Nothing."""
        return {}


class Cgroups(Protocol):
    """The node's cgroups as they are in this round; what was read once is not read again.

    Groups are named as ``Layout`` names them, knobs as ``koord_host.knobs`` does.
    """

    def now(self, group: str, knob: str) -> Value | None:
        """What the kernel's file says; ``None``: no such group or file, or no sense in it."""
        ...

    def base(self, group: str, knob: str) -> Value | None:
        """What it would say without strategies.

        What hooks want of it, or else what was found before the first change, or else ``now``.
        """
        ...

    def below(self, group: str, subsystem: str) -> tuple[str, ...]:
        """Every group below, at any depth, parents before children; sandboxes too."""
        ...


class NoCgroups:
    """``Cgroups`` of a node that has none."""

    def now(self, group: str, knob: str) -> Value | None:
        """None."""
        return None

    def base(self, group: str, knob: str) -> Value | None:
        """None."""
        return None

    def below(self, group: str, subsystem: str) -> tuple[str, ...]:
        """Nothing."""
        return ()
