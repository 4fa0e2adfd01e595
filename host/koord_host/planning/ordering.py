"""The order of writes that a kernel accepts, and that never widens a limit for a moment.

For any two valid states of a tree (proved with Hypothesis on a fake cgroupfs that
enforces the kernel's rules, ``tests/host/planning/test_ordering_property.py``):

1. Lower every burst, so that it is within the old quota and the new.
2. From the root down, set every nested knob to the join of what it is and what it
   shall be: the larger quota (as a share of its period), the union of the CPUs, the
   larger protection. A parent so has room for a child that is yet to grow.
3. From the leaves up, set every nested knob to what it shall be. A child has so
   shrunk before its parent does.
4. Raise every burst.
5. The rest, place by place; where a knob binds another (``cpu.idle`` the shares, the
   limit with swap the limit without) first what gives room.

Quota and period are two files on cgroup v1, whose kernel holds their ratio against
groups above and below: the one is written first that keeps the ratio between old
and new, and where neither does, the quota passes through -1. cgroup v2 binds no
child to its parent; the same order is harmless there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from koord_model import cpuset

from koord_host.knobs.forms import CPUS, NO_LIMIT, Value
from koord_host.knobs.table import KNOBS, Nesting
from koord_host.planning.desired_values import Target

QUOTA, PERIOD, BURST = "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us"
SHARES, IDLE = "cpu.shares", "cpu.idle"
LIMIT, MEMSW = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"

BOUND_TOGETHER = {
    name: tuple(member for member in group if member != name)
    for group in ((QUOTA, PERIOD, BURST), (SHARES, IDLE), (LIMIT, MEMSW))
    for name in group
}
"""Knobs of one place whose order depends on each other: planned in one round."""

_DEFAULT_PERIOD = 100_000  # µs
_IDLE_SHARES = 3


def parts(targets: Iterable[Target], most: int) -> list[list[Target]]:
    """Targets in parts that may be written one after the other, in any order.

    Groups bind those above and below them: all targets of a group, and of groups that are
    above or below each other, stay together. A part has ``most`` targets, or one such family.
    """
    targets = list(targets)
    if len(targets) <= most:
        return [targets] if targets else []
    places = {target.place for target in targets}
    families: dict[str, list[Target]] = {}
    for target in targets:
        families.setdefault(_top(target.place, places), []).append(target)
    found: list[list[Target]] = []
    for family in families.values():
        if found and len(found[-1]) + len(family) <= most:
            found[-1] += family
        else:
            found.append(family)
    return found


def _top(place: str, places: Container[str]) -> str:
    """The highest of the places that a place is in."""
    top = above = place
    while above:
        above = above.rpartition("/")[0]
        if above in places:
            top = above
    return top


class ValueChange(NamedTuple):
    """A target that has one value and shall have another."""

    target: Target
    current: Value
    wanted: Value


class WriteStep(NamedTuple):
    """One write. ``implied``: no owner wants it, but a value that one wants needs it."""

    target: Target
    value: Value
    implied: bool = False


@dataclass(frozen=True, slots=True)
class WriteOrder:
    """Writes in their order, and targets that cannot be written, with the reason."""

    steps: tuple[WriteStep, ...]
    dropped: tuple[tuple[Target, str], ...] = ()


CurrentValue = Callable[[Target], Value | None]
"""The current value of a target that need not change; ``None`` if the file is missing."""


def order(
    changes: Iterable[ValueChange], present: CurrentValue, held: Container[object] | None = None
) -> WriteOrder:
    """The writes that make these changes, each to its wanted value in the end.

    ``held`` are targets that some owner wants, changed or not: none of them is moved
    unasked. ``None``: nothing is.
    """
    places: dict[str, dict[str, ValueChange]] = {}
    for change in changes:
        places.setdefault(change.target.place, {})[change.target.knob] = change
    ordered = sorted(places, key=lambda place: (place.count("/") + bool(place), place))
    plans = [_PlaceChanges(place, places[place], present, held) for place in ordered]
    steps: list[WriteStep] = []
    for plan in plans:
        steps += plan.lower_burst()
    for plan in plans:
        steps += plan.widen()
    for plan in reversed(plans):
        steps += plan.narrow()
    for plan in plans:
        steps += plan.raise_burst()
    for plan in plans:
        steps += plan.rest()
    return WriteOrder(tuple(steps), tuple(target for plan in plans for target in plan.dropped))


class _PlaceChanges:
    """The changes of one place."""

    def __init__(
        self,
        place: str,
        changes: dict[str, ValueChange],
        present: CurrentValue,
        held: Container[object] | None,
    ) -> None:
        self._place = place
        self._changes = changes
        self._present = present
        self._held = held
        self.dropped: list[tuple[Target, str]] = []
        self._bandwidth = _bandwidth(self._range(QUOTA), self._range(PERIOD))

    def lower_burst(self) -> Iterator[WriteStep]:
        change = self._changes.get(BURST)
        if change is not None and _number(change.wanted) < _number(change.current):
            yield WriteStep(change.target, change.wanted)

    def raise_burst(self) -> Iterator[WriteStep]:
        change = self._changes.get(BURST)
        if change is not None and _number(change.wanted) >= _number(change.current):
            yield WriteStep(change.target, change.wanted)

    def widen(self) -> Iterator[WriteStep]:
        """Phase 2: to the join, where that is not what it has already."""
        if self._bandwidth.widens:
            yield from self._bandwidth_steps()
        for change in self._nested():
            join = _join(change)
            if join != change.current:
                yield WriteStep(change.target, join)

    def narrow(self) -> Iterator[WriteStep]:
        """Phase 3: from the join to what is wanted."""
        if not self._bandwidth.widens:
            yield from self._bandwidth_steps()
        for change in self._nested():
            if _join(change) != change.wanted or change.current == change.wanted:
                yield WriteStep(change.target, change.wanted)

    def rest(self) -> Iterator[WriteStep]:
        yield from self._weights()
        yield from self._limits()
        for name in sorted(self._changes):
            if name not in BOUND_TOGETHER and KNOBS[name].nesting is Nesting.FREE:
                yield self._step(name)

    def _nested(self) -> Iterator[ValueChange]:
        for name in sorted(self._changes):
            if name != QUOTA and KNOBS[name].nesting is Nesting.WITHIN:
                yield self._changes[name]

    def _bandwidth_steps(self) -> Iterator[WriteStep]:
        for name, value in self._bandwidth.steps:
            if name in self._changes:
                yield WriteStep(Target(self._place, name), value)

    def _weights(self) -> Iterator[WriteStep]:
        """An idle group takes no shares, and forgets those it had."""
        idle, shares = self._changes.get(IDLE), self._changes.get(SHARES)
        if idle is None and shares is None:
            return
        stays_idle = idle.wanted == 1 if idle else self._is_idle(shares)
        if idle is not None:
            yield self._step(IDLE)
        if shares is not None and stays_idle:
            self.dropped.append((shares.target, f"{IDLE} is 1: an idle group has no shares"))
        elif shares is not None:
            yield self._step(SHARES)

    def _is_idle(self, shares: ValueChange | None) -> bool:
        """True if a group stays idle; most show by their shares that they do not idle.

        The kernel gives an idle group 3 shares (a weight of 0 or 1) and refuses others.
        """
        if shares is not None and _number(shares.current) > _IDLE_SHARES:
            return False
        return self._present(Target(self._place, IDLE)) == 1

    def _limits(self) -> Iterator[WriteStep]:
        """The limit with swap is never below the one without."""
        limit, swap = self._changes.get(LIMIT), self._changes.get(MEMSW)
        implied = swap is None
        if limit is not None and swap is None:
            swap = self._follow(limit)
        room_first = swap is not None and _size(swap.wanted) > _size(swap.current)
        if swap is not None and room_first:
            yield WriteStep(swap.target, swap.wanted, implied)
        if limit is not None:
            yield self._step(LIMIT)
        if swap is not None and not room_first:
            yield WriteStep(swap.target, swap.wanted, implied)

    def _follow(self, limit: ValueChange) -> ValueChange | None:
        """Move a limit with swap that no owner wants: it gives way, or stays equal.

        Equal limits mean a group without swap. (Two that are both none mean nothing.)
        """
        target = Target(self._place, MEMSW)
        if self._held is None or target in self._held:
            return None
        now = self._present(target)
        if now is None or now == limit.wanted:
            return None
        without_swap = now == limit.current != NO_LIMIT
        return (
            ValueChange(target, now, limit.wanted)
            if without_swap or _size(now) < _size(limit.wanted)
            else None
        )

    def _step(self, name: str) -> WriteStep:
        change = self._changes[name]
        return WriteStep(change.target, change.wanted)

    def _range(self, name: str) -> tuple[Value | None, Value | None]:
        """Return the present and the desired value of a knob of this place."""
        change = self._changes.get(name)
        if change is not None:
            return change.current, change.wanted
        if name == PERIOD or PERIOD not in self._changes:
            # Where the period stays, whichever it is, the ratio moves as the quota does.
            return None, None
        now = self._present(Target(self._place, name))
        return now, now


class _QuotaChange(NamedTuple):
    """Changes of quota and period; ``widens`` decides the phase."""

    widens: bool
    steps: tuple[tuple[str, int], ...]


_NOTHING = _QuotaChange(False, ())


def _bandwidth(
    quota: tuple[Value | None, Value | None], period: tuple[Value | None, Value | None]
) -> _QuotaChange:
    q0, q1 = (_number(value, NO_LIMIT) for value in quota)
    p0, p1 = (_number(value, _DEFAULT_PERIOD) for value in period)
    if quota == period == (None, None):
        return _NOTHING
    before, after = _ratio(q0, p0), _ratio(q1, p1)
    if _between(before, _ratio(q0, p1), after):
        steps: tuple[tuple[str, int], ...] = ((PERIOD, p1), (QUOTA, q1))
    elif _between(before, _ratio(q1, p0), after):
        steps = ((QUOTA, q1), (PERIOD, p1))
    else:
        steps = ((QUOTA, NO_LIMIT), (PERIOD, p1), (QUOTA, q1))
    return _QuotaChange(after > before, steps)


def _between(before: float, ratio: float, after: float) -> bool:
    """True if groups above and below bear a ratio, as they bear those before and after.

    No limit does not mean a large ratio: such a group has what is above it, however little.
    """
    if math.inf in (before, after):
        return ratio in (before, after)
    return min(before, after) <= ratio <= max(before, after)


def _ratio(quota: int, period: int) -> float:
    """As the kernel computes it: a fraction of 20 bits, rounded down."""
    return math.inf if quota == NO_LIMIT else (quota << 20) // period


def outgrows(change: ValueChange, other: Target, value: Value) -> bool:
    """True if a change would give a group more than the one above it has.

    ``other`` is the same knob of the group above or below, which has ``value``.
    """
    target, wanted = change.target, change.wanted
    if target.knob != other.knob or KNOBS[target.knob].nesting is Nesting.FREE:
        return False
    if target.place.rpartition("/")[0] == other.place:
        return _join(ValueChange(other, value, wanted)) != value
    if other.place.rpartition("/")[0] == target.place:
        return _join(ValueChange(target, wanted, value)) != wanted
    return False


def _join(change: ValueChange) -> Value:
    """The least value that has room for what is and for what shall be."""
    now, wanted = change.current, change.wanted
    if KNOBS[change.target.knob].v1_form is CPUS:
        before, other = cpuset.parse(str(now)), cpuset.parse(str(wanted))
        if before <= other:
            return wanted
        return now if other <= before else cpuset.render(before | other)
    return now if _size(now) >= _size(wanted) else wanted


def _size(value: Value) -> float:
    return math.inf if value == NO_LIMIT else float(value)


def _number(value: Value | None, default: int = 0) -> int:
    return default if value is None else int(value)
