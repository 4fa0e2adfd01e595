"""The conditions of a drain that its phases depend on. No IO."""

from __future__ import annotations

from collections.abc import Iterator

from koord_descheduler.drain.drain_view import DrainView, deletes, goes_on, is_overdue
from koord_descheduler.drain.phases import DrainSignal


def signals(view: DrainView) -> set[DrainSignal]:
    """The conditions that hold."""
    return {signal for signal, holds in _conditions(view) if holds}


def _conditions(view: DrainView) -> Iterator[tuple[DrainSignal, bool]]:
    spec, node, pods = view.spec, view.node, view.pods
    is_empty = not pods
    is_proved = all(state.is_proved for state in pods)
    is_obstructed = any(state.is_obstructed for state in pods)
    yield DrainSignal.CANCELLED, spec.is_cancelled or view.is_deleted
    yield DrainSignal.CLAIMED, node is not None and view.is_claimed
    yield DrainSignal.MISSING, node is None
    yield DrainSignal.UNCLAIMED, node is not None and not view.is_claimed
    is_open = node is not None and not node.is_cordoned and not spec.is_dry_run
    yield DrainSignal.UNCORDONED, is_open
    yield DrainSignal.CONFIRMED, spec.is_confirmed
    yield DrainSignal.UNCONFIRMED, not spec.is_confirmed
    yield DrainSignal.BEGUN, view.status.confirmed_at is not None
    yield DrainSignal.OVERDUE, is_overdue(view) and not deletes(view)
    yield DrainSignal.EMPTY, is_empty
    yield DrainSignal.OCCUPIED, not is_empty
    yield DrainSignal.PROVED, is_proved
    yield DrainSignal.UNPROVED, not is_proved
    yield DrainSignal.OBSTRUCTED, is_obstructed
    yield DrainSignal.CLEAR, not is_obstructed
    yield DrainSignal.STUCK, is_obstructed and not goes_on(view)
