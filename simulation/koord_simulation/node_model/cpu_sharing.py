"""Sharing of a node's CPUs in one second. No IO.

1. A container wants at most as many CPUs as it may run on, and its groups' quotas allow; where
   a group's quota is short, its children get of it by weight what they want at most.
2. The kernel's balancer spreads runnable tasks evenly over the CPUs they may use.
   CPUs that the same containers may use (an *atom*) are one pool.
3. In a pool that is wanted by more than it has, each cgroup's children share by weight, and what
   one does not want is shared by the others (weighted max-min fairness, from the root down).
4. What did not fit is spread again over pools that have room left, until none has.

Simplified: a group has its whole weight in each pool, where the kernel spreads it over
CPUs; what a quota allowed and a pool then could not give is not given to siblings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from koord_host.knobs.forms import NO_LIMIT
from koord_host.planning.ordering import BURST, IDLE, PERIOD, QUOTA, SHARES
from koord_prediction.histogram import Floats

from koord_simulation.node_model.cgroups import SimulatedCgroups
from koord_simulation.node_model.machine import SimulatedMachine

_BIT = "cpu.bvt_warp_ns"
_YIELDS = 0.03
"""Weight of a task that gives way at once: an idle one, or one of group identity -1."""
_ENOUGH = 1e-9


@dataclass(slots=True)
class _CPUGroup:
    """A cgroup as far as CPU goes; ``leaf`` is a container's number, -1 of others."""

    name: str
    weight: float
    quota: float = math.inf
    burst: float = 0.0
    yields: bool = False
    leaf: int = -1
    children: list[_CPUGroup] = field(default_factory=list)


class CPUBlock(NamedTuple):
    """CPUs that the same containers may use, as a bit mask."""

    mask: int
    size: int
    leaves: tuple[int, ...]


class CPUAllotment(NamedTuple):
    """Result of one second by container: cores wanted as far as allowed, and given.

    ``busy`` is how much of each atom is used, 0 to 1.
    """

    wanted: list[float]
    given: list[float]
    busy: list[float]


class CPUSharing:
    """The state of the CPU knobs, made ready to share by; made anew when one changes."""

    def __init__(
        self, machine: SimulatedMachine, cgroups: SimulatedCgroups, leaves: Sequence[str]
    ) -> None:
        self._cgroups = cgroups
        self._root = _CPUGroup("", 1.0)
        self._leaves: list[_CPUGroup] = []
        self._above: list[list[_CPUGroup]] = []
        self._build(leaves)
        full = (1 << machine.cpus) - 1
        allowed = {group: _mask(cgroups.cpus(group)) or full for group in leaves}
        self.masks = [allowed[group] for group in leaves]
        self.sizes = [mask.bit_count() for mask in self.masks]
        self.atoms = _atoms(full, self.masks)
        self.quotas = [min(group.quota for group in chain[-2:]) for chain in self._above]
        """The stricter of each container's quota and its pod's, in cores."""
        self.bursts = [leaf.burst for leaf in self._leaves]
        """Cores of one period that a container may have saved up."""
        self.pressing = self._pressing(machine.lingering)
        self.beside = self._beside(machine)

    def _build(self, leaves: Sequence[str]) -> None:
        known = {"": self._root}
        for number, name in enumerate(leaves):
            parts = name.split("/")
            chain = []
            for depth in range(1, len(parts) + 1):
                path = "/".join(parts[:depth])
                if path not in known:
                    known[path] = self._group(path)
                    known["/".join(parts[: depth - 1])].children.append(known[path])
                chain.append(known[path])
            chain[-1].leaf = number
            self._leaves.append(chain[-1])
            self._above.append(chain)

    def _group(self, path: str) -> _CPUGroup:
        now = self._cgroups.now
        quota, period = now(path, QUOTA), float(now(path, PERIOD) or 100_000)
        idle = now(path, IDLE) == 1
        return _CPUGroup(
            path,
            float(now(path, SHARES) or 1024),
            math.inf if quota in (None, NO_LIMIT) else float(quota or 0) / period,
            float(now(path, BURST) or 0) / period,
            idle or int(now(path, _BIT) or 0) < 0,
        )

    def _pressing(self, lingering: float) -> Floats:
        """Load of one container's wanted core (column) on the CPUs that another (row) uses."""
        count = len(self._leaves)
        kinds = list(dict.fromkeys(self.masks))
        place = np.array([kinds.index(mask) for mask in self.masks], np.intp)
        overlap = np.array([[(a & b).bit_count() for b in kinds] for a in kinds], np.float64)
        sizes = np.array(self.sizes, np.float64)
        weights = np.array([self._flat(number) for number in range(count)])
        yields = [any(group.yields for group in chain) for chain in self._above]
        least = np.where(yields, _YIELDS, lingering)
        ahead = np.clip(2 * weights / np.maximum(weights[:, None] + weights, 1e-30), least, 1.0)
        ahead = np.where(yields, least, ahead)
        np.fill_diagonal(ahead, 1.0)
        spread = overlap[np.ix_(place, place)] / (sizes[:, None] * sizes)
        return np.asarray(ahead * spread, np.float64).reshape(count, count)

    def _flat(self, number: int) -> float:
        """Its part of the node by weights alone, were all busy."""
        part, above = 1.0, self._root
        for group in self._above[number]:
            part *= group.weight / sum(child.weight for child in above.children)
            above = group
        return part

    def _beside(self, machine: SimulatedMachine) -> Floats:
        """Of each atom (row), the part of its CPUs whose second thread is in another (column)."""
        cores = machine.cpus // machine.threads_per_core
        found = np.zeros((len(self.atoms), len(self.atoms)))
        if machine.threads_per_core == 1:
            return found
        home = {}
        for number, atom in enumerate(self.atoms):
            for cpu in range(machine.cpus):
                if atom.mask >> cpu & 1:
                    home[cpu] = number
        for cpu, number in home.items():
            others = [other for other in range(cpu % cores, machine.cpus, cores) if other != cpu]
            for other in others:
                found[number, home[other]] += 1 / (len(others) * self.atoms[number].size)
        return found

    def share(self, demands: Sequence[float]) -> CPUAllotment:
        """Cores for each container that would use so many."""
        wanted = [min(want, size) for want, size in zip(demands, self.sizes, strict=True)]
        self._under_quota(self._root, wanted)
        left = list(wanted)
        room = [float(atom.size) for atom in self.atoms]
        given = [0.0] * len(wanted)
        for _ in range(len(self.atoms) + 1):
            if not self._round(left, room, given):
                break
        busy = [1 - max(free, 0.0) / atom.size for free, atom in zip(room, self.atoms, strict=True)]
        return CPUAllotment(wanted, given, busy)

    def _under_quota(self, group: _CPUGroup, wanted: list[float]) -> float:
        """Hold what is wanted below a group to its quotas, from the leaves up; what is left."""
        if group.leaf >= 0:
            wanted[group.leaf] = min(wanted[group.leaf], group.quota)
            return wanted[group.leaf]
        whole = sum([self._under_quota(child, wanted) for child in group.children])
        if whole > group.quota:
            self._divide(group, group.quota, wanted)
            return group.quota
        return whole

    def _round(self, left: list[float], room: list[float], given: list[float]) -> bool:
        """Spread what is left over the pools that have room; whether anything is left to do."""
        open_for = [0] * len(left)
        for atom, free in zip(self.atoms, room, strict=True):
            if free > _ENOUGH:
                for leaf in atom.leaves:
                    open_for[leaf] += atom.size
        again = False
        wants = [
            want / spread if spread else 0.0 for want, spread in zip(left, open_for, strict=True)
        ]
        for number, atom in enumerate(self.atoms):
            free = room[number]
            if free <= _ENOUGH:
                continue
            here = {leaf: wants[leaf] * atom.size for leaf in atom.leaves if wants[leaf] > _ENOUGH}
            whole = sum(here.values())
            if whole > free:
                again = True
                parts = [0.0] * len(left)
                for leaf, want in here.items():
                    parts[leaf] = want
                self._divide(self._root, free, parts)
                here = {leaf: parts[leaf] for leaf in here}
                whole = free
            room[number] = free - whole
            for leaf, part in here.items():
                given[leaf] += part
                left[leaf] -= part
        return again

    def _divide(self, group: _CPUGroup, capacity: float, wanted: list[float]) -> None:
        """Divide capacity below a group by weight: of what each wants, what it gets is left."""
        if group.leaf >= 0:
            wanted[group.leaf] = min(capacity, wanted[group.leaf])
            return
        pairs = [(child, _below(child, wanted)) for child in group.children]
        pairs.sort(key=lambda pair: pair[1] / pair[0].weight)
        weight = sum(child.weight for child, want in pairs if want > 0)
        for child, want in pairs:
            if want <= 0:
                continue
            part = min(want, capacity * child.weight / weight)
            capacity, weight = max(capacity - part, 0.0), weight - child.weight
            if part < want:
                self._divide(child, part, wanted)


def _below(group: _CPUGroup, wanted: Sequence[float]) -> float:
    if group.leaf >= 0:
        return wanted[group.leaf]
    return sum([_below(child, wanted) for child in group.children])


def _mask(cpus: Iterable[int]) -> int:
    mask = 0
    for cpu in cpus:
        mask |= 1 << cpu
    return mask


def _atoms(full: int, masks: Sequence[int]) -> list[CPUBlock]:
    parts = [full]
    for mask in dict.fromkeys(masks):
        parts = [cut for part in parts for cut in (part & mask, part & ~mask) if cut]
    return [
        CPUBlock(part, part.bit_count(), tuple(n for n, mask in enumerate(masks) if mask & part))
        for part in parts
    ]
