"""End of reservations, and their owners in the status. No IO.

Koordinator's ``plugins/reservation/controller``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from koord_model import duration
from koord_model.demand import Amounts, amounts
from koord_model.times import from_rfc3339, rfc3339

from koord_scheduler.plugins.reservation.objects import (
    FAILED,
    SUCCEEDED,
    CurrentOwner,
    ReservationCondition,
    ReservationObject,
    ReservationSpec,
)

EXPIRED = "Expired"
_READY = "Ready"
_ENDED = (SUCCEEDED, EXPIRED)


class ReservationLife(NamedTuple):
    """A reservation's times, and its present status.

    It ends at ``expires``; ``None``: never. It has ended at ``ended``. In seconds since the epoch.
    """

    expires: float | None = None
    ended: float | None = None
    owners: tuple[CurrentOwner, ...] = ()
    allocated: tuple[tuple[str, int], ...] = ()
    conditions: tuple[ReservationCondition, ...] = ()


class Owners(NamedTuple):
    """The pods that are bound with something of a reservation, by uid, and how much they have.

    ``quantities`` are the amounts as they are written.
    """

    pods: tuple[CurrentOwner, ...]
    allocated: Amounts
    quantities: Mapping[str, str]


@dataclass(frozen=True)
class StatusChange:
    """These fields of the status are to be written."""

    status: Mapping[str, Any]


@dataclass(frozen=True)
class Removal:
    """The reservation has ended long ago, or its node is gone: it is to be deleted."""


NO_LIFE = ReservationLife()


def reservation_life(given: ReservationObject) -> ReservationLife:
    """Read an object's times and status.

    Raises:
        ValueError: how long it lasts is not a duration, or not a time.
    """
    status = given.status
    allocated = amounts(status.allocated)
    return ReservationLife(
        _expires(given.spec, given.metadata.creation_timestamp),
        _ended(status.conditions or ()),
        tuple(status.current_owners or ()),
        tuple(sorted((name, amount) for name, amount in allocated.items() if amount)),
        tuple(status.conditions or ()),
    )


def next_step(
    phase: str,
    life: ReservationLife,
    owners: Owners,
    *,
    node_is_gone: bool,
    is_for_one: bool,
    was_bound: bool = False,
    now: float,
    keep_seconds: float | None,
) -> StatusChange | Removal | None:
    """Return the next step for a reservation; ``None``: none.

    ``node_is_gone``: it had one. ``is_for_one``: it ends once a pod has it, or had it and is gone
    (``was_bound``). One that has ended is
    kept for ``keep_seconds``; ``None``: for ever. ``now`` is in seconds since the epoch.
    """
    if phase in (SUCCEEDED, FAILED):
        if keep_seconds is None or life.ended is None:
            return None
        is_old = now - life.ended > keep_seconds
        return Removal() if is_old or node_is_gone else None
    if node_is_gone or (life.expires is not None and now > life.expires):
        return StatusChange({"phase": FAILED, "conditions": _not_ready(life, EXPIRED, now)})
    is_reported = owners.pods == life.owners and _positive(owners.allocated) == life.allocated
    if is_reported and not (is_for_one and was_bound):
        return None
    status: dict[str, Any] = {
        "currentOwners": [msgspec.to_builtins(pod) for pod in owners.pods],
        "allocated": dict(owners.quantities),
    }
    if is_for_one:
        status |= {"phase": SUCCEEDED, "conditions": _not_ready(life, SUCCEEDED, now)}
    return StatusChange(status)


def sorted_owners(pods: Sequence[CurrentOwner]) -> tuple[CurrentOwner, ...]:
    """In the order in which they are written."""
    return tuple(sorted(pods, key=lambda pod: pod.uid))


def _expires(spec: ReservationSpec, created: str | None) -> float | None:
    """``spec.expires`` counts before ``spec.ttl``, which a CRD sets; a ``ttl`` of 0 before both."""
    try:
        ttl = None if spec.ttl is None else duration.seconds_or_number(spec.ttl)
    except ValueError:
        raise ValueError(f"spec.ttl: {spec.ttl!r} is not a duration like 30m or 24h") from None
    if ttl == 0:
        return None
    if spec.expires is not None:
        return from_rfc3339(spec.expires)
    return None if ttl is None or created is None else from_rfc3339(created) + ttl


def _ended(conditions: Sequence[ReservationCondition]) -> float | None:
    """Koordinator leaves the transition of a reservation that succeeded at when it was ready."""
    for condition in conditions:
        if condition.type == _READY and condition.reason in _ENDED:
            is_over = condition.reason == SUCCEEDED
            at = condition.last_probe_time if is_over else condition.last_transition_time
            return None if at is None else from_rfc3339(at)
    return None


def _not_ready(life: ReservationLife, reason: str, now: float) -> list[dict[str, Any]]:
    """The conditions, with one that says why the reservation is not ready any more."""
    at = rfc3339(now)
    made = ReservationCondition(_READY, "False", reason, "", at, at)
    others = [condition for condition in life.conditions if condition.type != _READY]
    return [msgspec.to_builtins(other) for other in (*others, made)]


def _positive(given: Amounts) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, amount) for name, amount in given.items() if amount))
