"""The knobs of a simulated node: the kernel's rules, and desired values. No IO.

Desired values are handled as on a node: arbitrated (``koord_host.planning.arbiter``), ordered
(``koord_host.planning.ordering``), each write checked by its knob's row and by those rules of the
kernel that strategies run into; a target without a desired value is restored.
Values are kept as the kernel's file would read after the write.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from koord_host.knobs.forms import NO_LIMIT, Form, Value
from koord_host.knobs.table import KNOBS, PlaceKind
from koord_host.planning.arbiter import arbitrate
from koord_host.planning.desired_values import DesiredValue, Owner, Target
from koord_host.planning.ordering import (
    BURST,
    IDLE,
    LIMIT,
    MEMSW,
    PERIOD,
    QUOTA,
    SHARES,
    ValueChange,
    order,
)
from koord_model import cpuset

from koord_simulation.node_model.machine import SimulatedMachine

CPUS = "cpuset.cpus"
SYSCTL = "sysctl"

_IDLE_SHARES = 3
_NEW_SHARES = 1024
_NEW: Mapping[str, Value] = {
    SHARES: _NEW_SHARES,
    QUOTA: NO_LIMIT,
    PERIOD: 100_000,
    LIMIT: NO_LIMIT,
    MEMSW: NO_LIMIT,
    "memory.high": NO_LIMIT,
    "memory.wmark_scale_factor": 50,
    "blkio.cost.weight": 100,
}
"""Values of a new group; 0 or nothing where no value is given."""

SYSCTLS: Mapping[str, str] = {"vm.min_free_kbytes": "67584", "vm.watermark_scale_factor": "10"}
"""Those that the model knows, as they are at boot."""


class RefusedWrite(NamedTuple):
    """A write that a kernel would have refused."""

    target: Target
    value: Value
    why: str


class SimulatedCgroups:
    """Implements ``Cgroups``. ``changes`` counts every change of a value or a group."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self.changes = 0
        self.refused: list[RefusedWrite] = []
        """Each write that was refused, once."""
        self._version = machine.cgroup_version
        self._online = machine.online
        knobs = sorted(machine.knobs)
        self._knobs = machine.knobs
        self._new = {
            name: "" if KNOBS[name].v1_form.text else 0
            for name in knobs
            if KNOBS[name].where is PlaceKind.CGROUP
        }
        self._new.update({name: _NEW[name] for name in _NEW if name in self._new})
        self._values: dict[str, dict[str, Value]] = {
            name: {SYSCTL: text} for name, text in SYSCTLS.items()
        }
        self._children: dict[str, list[str]] = {}
        self._baselines: dict[Target, Value] = {}
        self._desired: Mapping[Owner, tuple[DesiredValue, ...]] = {}
        self._stale = False
        self._known: set[RefusedWrite] = set()

    # ---- groups, as the kubelet makes them

    def create(self, group: str, **values: Value) -> None:
        """A new group; ``values`` are knobs' by their names with "_" for ".".

        Raises:
            KeyError: the knob is unknown.
            ValueError: a value is none for its knob.
        """
        above = _above(group)
        self._values[group] = dict(self._new)
        self._children.setdefault(above, []).append(group)
        self._children[group] = []
        if self._version == 1 and CPUS in self._new:
            self._values[group][CPUS] = self._values[above][CPUS] if above else self._online
        self.changes += 1
        self._stale = True
        for name, value in values.items():
            self.put(group, _SPELT[name], value)

    def remove(self, group: str) -> None:
        """The group is gone, and those below it."""
        for place in (*self.below(group, ""), group):
            del self._values[place], self._children[place]
            for target in [target for target in self._baselines if target.place == place]:
                del self._baselines[target]
        self._children[_above(group)].remove(group)
        self.changes += 1
        self._stale = True

    def put(self, group: str, knob: str, value: Value) -> None:
        """The kubelet or the runtime sets a knob, or its baseline, if it has a desired value.

        Raises:
            ValueError: the value is not valid for this knob.
        """
        if knob not in self._values[group]:
            return
        KNOBS[knob].check(value)
        target = Target(group, knob)
        if target in self._baselines:
            self._baselines[target] = self._read_back(target, value, self._baselines[target])
        else:
            self._set(target, value)

    # ---- what strategies see

    def now(self, group: str, knob: str) -> Value | None:
        """The content of the file."""
        return self._values.get(group, {}).get(knob)

    def base(self, group: str, knob: str) -> Value | None:
        """The content before the first change."""
        found = self._baselines.get(Target(group, knob))
        return self.now(group, knob) if found is None else found

    def below(self, group: str, subsystem: str) -> tuple[str, ...]:
        """Every group below; all hierarchies are alike."""
        found: list[str] = []
        level = self._children.get(group, [])
        while level:
            found += level
            level = [child for parent in level for child in self._children[parent]]
        return tuple(found)

    def cpus(self, group: str) -> frozenset[int]:
        """The CPUs that its tasks may run on: of v2 what is left of those above."""
        allowed = cpuset.parse(self._online)
        parts = group.split("/")
        for depth in range(1, len(parts) + 1):
            own = cpuset.parse(str(self.now("/".join(parts[:depth]), CPUS) or ""))
            # Where nothing of its own is left, a group of v2 has what is above it.
            allowed = (own & allowed) or allowed
        return allowed

    # ---- what strategies want

    @property
    def desired(self) -> Mapping[Owner, tuple[DesiredValue, ...]]:
        """Present desired values by owner."""
        return self._desired

    def set_desired(self, desired: Mapping[Owner, tuple[DesiredValue, ...]]) -> None:
        """All that is wanted now; what was wanted before and is not any more is put back."""
        if not self._stale and desired == self._desired:
            return
        self._desired, self._stale = dict(desired), False
        wanted = self._arbitrated(desired)
        for target, found in self._baselines.items():
            # Devices that are no longer named get what was found of them.
            now, form = self._values[target.place][target.knob], self._form(target)
            wanted[target] = form.complete(wanted.get(target, found), now, found)
        changes = []
        for target, value in wanted.items():
            now = self._values[target.place][target.knob]
            if self._read_back(target, value, now) != now:
                changes.append(ValueChange(target, now, value))
        self._write(changes, frozenset(wanted))
        asked = {desired_value.target for group in desired.values() for desired_value in group}
        for target in [target for target in self._baselines if target not in asked]:
            if self._values[target.place][target.knob] == self._baselines[target]:
                del self._baselines[target]

    def _arbitrated(self, desired: Mapping[Owner, tuple[DesiredValue, ...]]) -> dict[Target, Value]:
        by_target: dict[Target, list[tuple[Owner, DesiredValue]]] = {}
        refused: set[RefusedWrite] = set()
        for owner, group in desired.items():
            for desired_value in group:
                why = self._wrong(desired_value)
                if why:
                    refused.add(RefusedWrite(desired_value.target, desired_value.value, why))
                else:
                    by_target.setdefault(desired_value.target, []).append((owner, desired_value))
        self._refuse(refused)
        return {
            target: arbitrate(KNOBS[target.knob], found).value
            for target, found in by_target.items()
        }

    def _wrong(self, value: DesiredValue) -> str:
        place, knob = value.target
        row = KNOBS.get(knob)
        if row is None:
            return f"there is no knob {knob}"
        if knob == SYSCTL and place not in self._values:
            self._values[place] = {SYSCTL: ""}
        if knob not in self._values.get(place, {}):
            there = place in self._values
            return f"this kernel has no {knob}" if there else "there is no such group"
        try:
            row.check(value.value)
        except ValueError as error:
            return str(error)
        return ""

    def _write(self, changes: Iterable[ValueChange], held: frozenset[Target]) -> None:
        found = order(changes, lambda target: self.now(*target), held)
        refused = {RefusedWrite(target, "", why) for target, why in found.dropped}
        for step in found.steps:
            why = self._rule(step.target, step.value)
            if why:
                refused.add(RefusedWrite(step.target, step.value, why))
                continue
            now = self._values[step.target.place][step.target.knob]
            self._baselines.setdefault(step.target, now)
            self._set(step.target, step.value)
        self._known |= self._refuse(refused)

    def _refuse(self, refused: set[RefusedWrite]) -> set[RefusedWrite]:
        self.refused += sorted(refused - self._known, key=str)
        self._known |= refused
        return refused

    def _set(self, target: Target, value: Value) -> None:
        values = self._values[target.place]
        values[target.knob] = self._read_back(target, value, values.get(target.knob, ""))
        if target.knob == IDLE:
            values[SHARES] = _IDLE_SHARES if value == 1 else _NEW_SHARES
        self.changes += 1

    def _read_back(self, target: Target, value: Value, before: Value) -> Value:
        """The content of the file after that value is written over what was there ``before``."""
        form = self._form(target)
        if form.unit > 1 and isinstance(value, int) and value > 0:
            return value // form.unit * form.unit
        # Devices that the value does not name stay as they are.
        current = "" if form.lines is None else form.encode(before, "")
        return form.decode(form.encode(value, current))

    def _form(self, target: Target) -> Form:
        return KNOBS[target.knob].form(self._version)

    # ---- the kernel's rules

    def _rule(self, target: Target, value: Value) -> str:
        """Return why a kernel would refuse a value; "" if it would not."""
        place, knob = target
        if knob == CPUS:
            return self._cpuset_rule(place, cpuset.parse(str(value)))
        if knob in (QUOTA, PERIOD, BURST):
            return self._bandwidth_rule(place, knob, int(value))
        return ""

    def _cpuset_rule(self, place: str, cpus: frozenset[int]) -> str:
        if not cpus <= cpuset.parse(self._online):
            return "not all of these CPUs run"
        if self._version == 2:
            return ""
        above = self.now(_above(place), CPUS)
        if above is not None and not cpus <= cpuset.parse(str(above)):
            return f"the group above has {above} only"
        for child in self._children.get(place, ()):
            if not cpuset.parse(str(self.now(child, CPUS) or "")) <= cpus:
                return f"{child} has {self.now(child, CPUS)}"
        return ""

    def _bandwidth_rule(self, place: str, knob: str, value: int) -> str:
        now = {name: int(self.now(place, name) or 0) for name in (QUOTA, PERIOD, BURST)}
        now[knob] = value
        if now[QUOTA] != NO_LIMIT and now[BURST] > now[QUOTA]:
            return f"a burst of {now[BURST]} is more than the quota of {now[QUOTA]}"
        if self._version == 2 or knob == BURST or now[QUOTA] == NO_LIMIT:
            return ""
        ratio = now[QUOTA] / now[PERIOD]
        above = _above(place)
        while above:
            if ratio > self._ratio(above) + 1e-6:
                return f"{above} has less"
            above = _above(above)
        if any(
            ratio < lower - 1e-6
            for lower in map(self._ratio, self.below(place, "cpu"))
            if lower != math.inf
        ):
            return "a group below has more"
        return ""

    def _ratio(self, group: str) -> float:
        quota = int(self.now(group, QUOTA) or NO_LIMIT)
        return math.inf if quota == NO_LIMIT else quota / int(self.now(group, PERIOD) or 100_000)


def _above(group: str) -> str:
    return group.rpartition("/")[0]


_SPELT = {name.replace(".", "_"): name for name in KNOBS}
"""Knobs by keyword: "cpu_cfs_quota_us" is "cpu.cfs_quota_us"."""
