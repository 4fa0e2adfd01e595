"""Moves that a round chose, and pods that it did not move, each with its reason. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from koord_descheduler.objects.observed_pod import ObservedPod

DISRUPTION_REASON = "EvictionByDescheduler"
"""Reason of the condition DisruptionTarget of pods that are evicted."""


class Destination(StrEnum):
    """The place that there has to be for a pod before it is evicted."""

    ELSEWHERE = "elsewhere"
    """A node that the scheduler prefers to its own: it moves."""
    ANYWHERE = "anywhere"
    """Any node, its own too: it is started anew."""
    NOWHERE = "nowhere"
    """None: nothing comes in its place, or it has ended."""


class MoveSet(msgspec.Struct, frozen=True):
    """The set that a move is part of, one of ``size``: if one fails, the rest stays.

    Moves of a ``wave`` count on the room of pods that those of earlier waves moved.
    """

    name: str
    wave: int
    size: int


class Move(NamedTuple):
    """A pod to be evicted, for a ``reason`` in Koordinator's words.

    ``target`` is the node that was planned for it, "" if none is needed. ``group`` is the same of
    pods that move together or not at all. ``arithmetic`` are the numbers that decided, as plain
    data. One that ``is_pinned`` goes to its target or not at all: others count on it, those of its
    ``move_set``, which a plan has.
    """

    pod: ObservedPod
    target: str
    profile: str
    plugin: str
    reason: str
    group: str = ""
    arithmetic: Mapping[str, Any] = {}
    is_pinned: bool = False
    move_set: MoveSet | None = None

    @property
    def source(self) -> str:
        """The node that it leaves."""
        return self.pod.node


class MoveRefusal(NamedTuple):
    """A pod that a plugin wanted to move, and the ``rule`` that kept it where it is."""

    pod: ObservedPod
    profile: str
    plugin: str
    rule: str
    why: str


class DesiredAnnotations(NamedTuple):
    """Annotations of a pod to be written in one patch; ``None`` for a value removes one."""

    pod: ObservedPod
    values: Mapping[str, str | None]
    profile: str
    plugin: str


class RoundPlan(NamedTuple):
    """The result of a round at ``at`` (seconds since the epoch); moves in order of execution.

    ``notes`` are what plugins say of their rounds, by plugin: why nothing is to do, what nodes are.
    ``annotations`` are written beside the moves.
    """

    at: float
    moves: tuple[Move, ...]
    refusals: tuple[MoveRefusal, ...]
    notes: Mapping[str, Any] = {}
    annotations: tuple[DesiredAnnotations, ...] = ()
