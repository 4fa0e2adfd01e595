"""The phases of a drain, as a table. No IO.

Pending → Planning → Waiting → Running → Drained is the way of a drain that goes well. Blocked says
that nothing goes on until somebody acts; Failed and Aborted are ends.
"""

from __future__ import annotations

from collections.abc import Set
from enum import StrEnum
from typing import NamedTuple


class DrainPhase(StrEnum):
    """The state of a DrainNode."""

    PENDING = "Pending"
    """Its node is not its own yet: another drain has it, or there is no such node."""
    PLANNING = "Planning"
    """The node is cordoned; places are found and reserved."""
    WAITING = "Waiting"
    """Each pod has a place; nothing moves until somebody confirms."""
    RUNNING = "Running"
    """Pods move, wave by wave."""
    BLOCKED = "Blocked"
    """Some pods can not move, or somebody uncordoned the node."""
    DRAINED = "Drained"
    """No pod is left that a drain could end; the node stays cordoned."""
    FAILED = "Failed"
    """The deadline has passed, or the node is gone; the node stays cordoned."""
    ABORTED = "Aborted"
    """All is undone."""


class DrainSignal(StrEnum):
    """A condition that phases depend on."""

    CANCELLED = "cancelled"
    """Somebody aborts, rejects or deletes it."""
    CLAIMED = "claimed"
    """The node is its own."""
    MISSING = "missing"
    """There is no such node."""
    UNCLAIMED = "unclaimed"
    """The node is not its own any more."""
    UNCORDONED = "uncordoned"
    """Somebody uncordoned the node: a pause."""
    CONFIRMED = "confirmed"
    """Pods may move."""
    UNCONFIRMED = "unconfirmed"
    """They may not."""
    BEGUN = "begun"
    """Pods have moved since it was confirmed, or could have."""
    OVERDUE = "overdue"
    """The deadline has passed."""
    EMPTY = "empty"
    """No pod is left that a drain could end."""
    OCCUPIED = "occupied"
    """Some are."""
    PROVED = "proved"
    """Each of these has a place, or ends by itself."""
    UNPROVED = "unproved"
    """Some have none yet."""
    OBSTRUCTED = "obstructed"
    """Some can not move."""
    CLEAR = "clear"
    """All of them can, as far as is known."""
    STUCK = "stuck"
    """Some can not move, and no other is on its way."""


class PhaseRule(NamedTuple):
    """The phase ``then`` comes next if all signals hold."""

    when: frozenset[DrainSignal]
    then: DrainPhase


def _when(*signals: DrainSignal, then: DrainPhase) -> PhaseRule:
    return PhaseRule(frozenset(signals), then)


_P, _S = DrainPhase, DrainSignal

_CANCEL = _when(_S.CANCELLED, then=_P.ABORTED)
_GONE = _when(_S.MISSING, then=_P.FAILED)
_TAKEN = _when(_S.UNCLAIMED, then=_P.FAILED)
_CLAIM = _when(_S.UNCLAIMED, then=_P.PENDING)
_PAUSE = _when(_S.UNCORDONED, then=_P.BLOCKED)

TRANSITIONS: dict[DrainPhase, tuple[PhaseRule, ...]] = {
    _P.PENDING: (
        _CANCEL,
        _when(_S.CLAIMED, then=_P.PLANNING),
    ),
    _P.PLANNING: (
        _CANCEL,
        _GONE,
        _CLAIM,
        _PAUSE,
        _when(_S.OBSTRUCTED, then=_P.BLOCKED),
        _when(_S.PROVED, then=_P.WAITING),
    ),
    _P.WAITING: (
        _CANCEL,
        _GONE,
        _CLAIM,
        _PAUSE,
        _when(_S.OBSTRUCTED, then=_P.BLOCKED),
        _when(_S.UNPROVED, then=_P.PLANNING),
        _when(_S.CONFIRMED, then=_P.RUNNING),
    ),
    _P.RUNNING: (
        _CANCEL,
        _GONE,
        _TAKEN,
        _PAUSE,
        _when(_S.UNCONFIRMED, then=_P.PLANNING),
        _when(_S.EMPTY, then=_P.DRAINED),
        _when(_S.OVERDUE, then=_P.FAILED),
        _when(_S.STUCK, then=_P.BLOCKED),
    ),
    _P.BLOCKED: (
        _CANCEL,
        _GONE,
        _when(_S.BEGUN, _S.UNCLAIMED, then=_P.FAILED),
        _CLAIM,
        _PAUSE,
        _when(_S.BEGUN, _S.UNCONFIRMED, then=_P.PLANNING),
        _when(_S.BEGUN, _S.EMPTY, then=_P.DRAINED),
        _when(_S.BEGUN, _S.OVERDUE, then=_P.FAILED),
        _when(_S.BEGUN, _S.STUCK, then=_P.BLOCKED),
        _when(_S.BEGUN, then=_P.RUNNING),
        _when(_S.CLEAR, then=_P.PLANNING),
    ),
    _P.DRAINED: (
        _CANCEL,
        _TAKEN,
        _PAUSE,
        _when(_S.OCCUPIED, then=_P.RUNNING),
    ),
    _P.FAILED: (_CANCEL,),
    _P.ABORTED: (),
}
"""The rules of each phase; the first that holds counts, and without one the phase stays."""


def next_phase(phase: DrainPhase, signals: Set[DrainSignal]) -> DrainPhase:
    """The phase after this one."""
    for rule in TRANSITIONS[phase]:
        if rule.when <= signals:
            return rule.then
    return phase
