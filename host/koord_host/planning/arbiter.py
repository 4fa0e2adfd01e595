"""Arbitration between the values that several owners want for one target.

Whatever the order they come in: a rule of the knob's row decides, ties go by the
owner's priority, then its name.

    least         the strictest limit (of devices: the strictest for each)
    most          the strongest protection
    intersection  the CPUs that all owners allow; none are left: what the owners of
                  the highest priority want stands
    priority      the owner of the highest priority; of two, the first by name
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from koord_model import cpuset

from koord_host.knobs.forms import NO_LIMIT, Value, devices, render_devices
from koord_host.knobs.table import Knob, MergeRule
from koord_host.planning.desired_values import DesiredValue, Owner, Target


@dataclass(frozen=True, slots=True)
class OwnerValue:
    """One owner's value, and its reason."""

    owner: Owner
    value: Value
    why: str


@dataclass(frozen=True, slots=True)
class ValueConflict:
    """Several owners want different values of one target.

    ``settled`` is whether the knob's rule is made for it: a limit, a protection, CPUs
    in common, a higher priority. Otherwise one owner goes without for no better reason
    than its name or an empty intersection, and a person should look at it.
    """

    target: Target
    wanted: tuple[OwnerValue, ...]
    value: Value
    settled: bool

    def __str__(self) -> str:
        wanted = ", ".join(
            f"{owner_value.owner.name} wants {owner_value.value}" for owner_value in self.wanted
        )
        return f"{self.target.place}: {self.target.knob}: {wanted}; {self.value} stands"

    @property
    def parties(self) -> tuple[object, ...]:
        """Identity of the conflict, which stays while values move."""
        return (self.settled, *(owner_value.owner for owner_value in self.wanted))


class ArbitratedValue(NamedTuple):
    """The value that stands. ``owners`` are those who got what they want."""

    value: Value
    owners: tuple[Owner, ...]
    why: str = ""
    pod: str = ""
    conflict: ValueConflict | None = None

    @property
    def owner(self) -> str:
        """Deciding owners, for people."""
        if len(self.owners) == 1:
            return self.owners[0].name
        return ", ".join(owner.name for owner in self.owners)


def arbitrate(knob: Knob, desired_values: Iterable[tuple[Owner, DesiredValue]]) -> ArbitratedValue:
    """Choose one value for a target; at least one is desired, and all of them are valid."""
    given = list(desired_values)
    if len(given) == 1:
        [(owner, desired)] = given
        return ArbitratedValue(desired.value, (owner,), desired.why, desired.pod)
    wanted = tuple(
        sorted(
            {OwnerValue(owner, desired.value, desired.why) for owner, desired in given}, key=_rank
        )
    )
    values = {owner_value.value for owner_value in wanted}
    settled = True
    if len(values) == 1:
        [value] = values
    else:
        value, settled = _MERGES[knob.rule](knob, wanted)
    # Values merged out of several are everybody's.
    deciders = [owner_value for owner_value in wanted if owner_value.value == value] or list(wanted)
    conflict = None
    if len(values) > 1:
        conflict = ValueConflict(given[0][1].target, wanted, value, settled)
    return ArbitratedValue(
        value,
        tuple(dict.fromkeys(owner_value.owner for owner_value in deciders)),
        "; ".join(dict.fromkeys(owner_value.why for owner_value in deciders if owner_value.why)),
        min((desired.pod for _, desired in given if desired.pod), default=""),
        conflict,
    )


def _rank(owner_value: OwnerValue) -> tuple[object, ...]:
    return (
        -owner_value.owner.priority,
        owner_value.owner.name,
        *_order(owner_value.value),
        owner_value.why,
    )


def _order(value: Value) -> tuple[bool, Value]:
    return isinstance(value, str), value


def _size(value: Value) -> float:
    return math.inf if value == NO_LIMIT else float(value)


def _first(wanted: tuple[OwnerValue, ...]) -> tuple[Value, bool]:
    """Return the value of the highest priority; not settled if its owners disagree."""
    top = {
        owner_value.value
        for owner_value in wanted
        if owner_value.owner.priority == wanted[0].owner.priority
    }
    return wanted[0].value, len(top) == 1


def _least(knob: Knob, wanted: tuple[OwnerValue, ...]) -> tuple[Value, bool]:
    if knob.v1_form.lines is not None:
        return _least_by_device(wanted), True
    return min((owner_value.value for owner_value in wanted), key=_size), True


def _least_by_device(wanted: tuple[OwnerValue, ...]) -> Value:
    least: dict[str, int] = {}
    for owner_value in wanted:
        for device, limit in devices(str(owner_value.value)).items():
            known = least.get(device, 0)
            least[device] = min(known or limit, limit or known)
    return render_devices(least)


def _most(_: Knob, wanted: tuple[OwnerValue, ...]) -> tuple[Value, bool]:
    return max((owner_value.value for owner_value in wanted), key=_size), True


def _intersection(_: Knob, wanted: tuple[OwnerValue, ...]) -> tuple[Value, bool]:
    shared = _shared(wanted)
    if shared:
        return shared, True
    top = tuple(
        owner_value
        for owner_value in wanted
        if owner_value.owner.priority == wanted[0].owner.priority
    )
    return _shared(top) or wanted[0].value, False


def _shared(wanted: tuple[OwnerValue, ...]) -> str:
    sets = [cpuset.parse(str(owner_value.value)) for owner_value in wanted]
    shared = reduce(frozenset.intersection, sets)
    same = (
        str(owner_value.value)
        for owner_value, cpus in zip(wanted, sets, strict=True)
        if cpus == shared
    )
    # As an owner spelt it, so that it is seen to have got it.
    return next(same, cpuset.render(shared))


def _priority(_: Knob, wanted: tuple[OwnerValue, ...]) -> tuple[Value, bool]:
    return _first(wanted)


_MERGES: dict[MergeRule, Callable[[Knob, tuple[OwnerValue, ...]], tuple[Value, bool]]] = {
    MergeRule.LEAST: _least,
    MergeRule.MOST: _most,
    MergeRule.INTERSECTION: _intersection,
    MergeRule.PRIORITY: _priority,
}
