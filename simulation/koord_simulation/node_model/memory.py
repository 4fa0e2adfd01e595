"""Memory of a node in one second: who uses what, what is reclaimed, who is killed. No IO.

- A container has what it needs at once (without page cache), and page cache of two kinds: what it
  needs again (hot), which comes back a tenth of what is missing each second, and what it does
  not (cold), which takes ten minutes.
- Reclaim takes from a container first what is cold: page cache, then, with swap, the rest;
  then what is hot in the same order. What is hot and gone makes its tasks wait for memory:
  twice the part of what they need that is missing.
- Above ``memory.high`` a group is reclaimed from; what cannot be reclaimed grows by a tenth of what
  it wants to, and its tasks wait.
- Above its limit a group is reclaimed from, then its largest container is killed.
- Below the node's watermark (``vm.watermark_scale_factor``/10000 of all, and
  ``vm.min_free_kbytes``) all are reclaimed from, in proportion to what they have above
  ``memory.low``, then above ``memory.min``. Where less than ``min_free_kbytes`` is left even
  so, the container with the highest badness is killed: its part of all memory and swap in
  permill, plus oom_score_adj. A protection counts as far as that of the groups above it reaches.
- A container that was killed starts anew after ten seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from koord_host.knobs.forms import NO_LIMIT
from koord_host.planning.ordering import LIMIT

from koord_simulation.node_model.cgroups import SYSCTL, SimulatedCgroups
from koord_simulation.node_model.machine import SimulatedMachine

RESTART_SECONDS = 10.0
_HOT_AGAIN, _COLD_AGAIN = 0.1, 1 / 600
_SOME_BYTES = 4096.0


@dataclass(slots=True)
class ContainerMemory:
    """A container's memory, in bytes.

    ``adj`` is its oom_score_adj, ``stall`` the part of the second (0 to 1) in which its tasks
    waited for memory.
    """

    group: str
    adj: int
    wants: float = 0.0
    wants_cache: float = 0.0
    cold_part: float = 0.0
    anon: float = 0.0
    swapped: float = 0.0
    hot: float = 0.0
    cold: float = 0.0
    stall: float = 0.0
    started: float = 0.0
    dead_until: float = -math.inf

    @property
    def cache(self) -> float:
        """Its page cache."""
        return self.hot + self.cold

    @property
    def usage(self) -> float:
        """Bytes charged to its cgroup."""
        return self.anon + self.hot + self.cold

    @property
    def cold_bytes(self) -> float:
        """Bytes that it has and does not need."""
        return self.cold + max(self.cold_part * self.wants - self.swapped, 0.0)


class MemoryKill(NamedTuple):
    """A container that was killed for want of memory; ``where`` is "" for the whole node."""

    at: float
    group: str
    where: str


class _GroupLimit(NamedTuple):
    """A group that has a limit, and the numbers of the containers in it."""

    group: str
    members: tuple[int, ...]
    high: float
    most: float


class MemoryModel:
    """All containers' memory; made anew where knobs or containers change."""

    def __init__(
        self,
        machine: SimulatedMachine,
        cgroups: SimulatedCgroups,
        held: Sequence[ContainerMemory],
        swap_used: float,
    ) -> None:
        self.held = held
        self.swap_used = swap_used
        self._total = float(machine.memory)
        self._swap = float(machine.swap)
        self._cgroups = cgroups
        self._min_free = 1024.0 * _sysctl(cgroups, "vm.min_free_kbytes")
        scale = _sysctl(cgroups, "vm.watermark_scale_factor")
        self._watermark = self._min_free + scale * self._total / 10_000
        self._bounds = self._find_bounds()
        self._low = self._protections("memory.low")
        self._min = self._protections("memory.min")
        self._system = 0.0

    @property
    def free(self) -> float:
        """Free memory."""
        return self._total - self._system - sum([container.usage for container in self.held])

    def step(self, at: float, system: float) -> list[MemoryKill]:
        """A second passes, in which the system beside the pods uses so much."""
        self._system = system
        grown = [self._grow(container, at) for container in self.held]
        killed: list[MemoryKill] = []
        for bounds in self._bounds:
            self._hold(bounds, grown, at, killed)
        if self.free < self._watermark:
            self._reclaim_node(grown, at, killed)
        for container in self.held:
            if at >= container.dead_until:
                container.stall = max(container.stall, _missing(container))
        return killed

    def reclaim(self, group: str, size: float) -> float:
        """Proactive reclaim of a group (``memory.reclaim``); how much it came to."""
        members = [container for container in self.held if _within(container.group, group)]
        return self._take(members, [member.usage for member in members], size)

    def _grow(self, container: ContainerMemory, at: float) -> float:
        """Have a container take what it wants; how much more than a second ago."""
        container.stall = 0.0
        if at < container.dead_until:
            return 0.0
        before = container.anon
        self.swap_used -= max(container.swapped - container.wants, 0.0)
        container.swapped = min(container.swapped, container.wants)
        container.anon = container.wants - container.swapped
        hot, cold = (
            (1 - container.cold_part) * container.wants_cache,
            container.cold_part * container.wants_cache,
        )
        container.hot = min(container.hot + _HOT_AGAIN * max(hot - container.hot, 0.0), hot)
        container.cold = min(container.cold + _COLD_AGAIN * max(cold - container.cold, 0.0), cold)
        if container.started > at - 1:
            container.hot, container.cold = hot, cold
        return max(container.anon - before, 0.0)

    def _hold(
        self, bounds: _GroupLimit, grown: list[float], at: float, killed: list[MemoryKill]
    ) -> None:
        members = [self.held[number] for number in bounds.members]
        usage = sum([member.anon + member.hot + member.cold for member in members])
        if usage <= bounds.high and usage <= bounds.most:
            return
        over = usage - bounds.high
        if over > _SOME_BYTES:
            over -= self._take(members, [member.usage for member in members], over)
            if over > _SOME_BYTES:
                wait = min(1.0, over / (0.05 * max(bounds.high, 1.0)))
                for number, container in zip(bounds.members, members, strict=True):
                    container.stall = max(container.stall, wait)
                    container.anon -= min(0.9 * grown[number], container.anon)
        over = sum([member.usage for member in members]) - bounds.most
        if over > _SOME_BYTES:
            over -= self._take(members, [member.usage for member in members], over)
        while over > _SOME_BYTES:
            largest = max(members, key=lambda container: container.anon)
            over -= self._kill(largest, at, bounds.group, killed)

    def _reclaim_node(self, grown: list[float], at: float, killed: list[MemoryKill]) -> None:
        if self.free < self._min_free:
            # Who asks for memory has to reclaim it first.
            for container, more in zip(self.held, grown, strict=True):
                if more > 0:
                    container.stall = max(container.stall, 0.1)
        for protection in (self._low, self._min):
            need = self._watermark - self.free
            if need > _SOME_BYTES:
                bare = [
                    max(container.usage - kept, 0.0)
                    for container, kept in zip(self.held, protection, strict=True)
                ]
                self._take(self.held, bare, need)
        while self.free < self._min_free:
            alive = [
                container for container in self.held if container.anon > 0 and container.adj > -1000
            ]
            if not alive:
                return
            self._kill(max(alive, key=self.badness), at, "", killed)

    def badness(self, container: ContainerMemory) -> float:
        """Return the score by which the OOM killer chooses: the highest first."""
        return (
            1000 * (container.anon + container.swapped) / (self._total + self._swap) + container.adj
        )

    def _kill(
        self, container: ContainerMemory, at: float, where: str, killed: list[MemoryKill]
    ) -> float:
        """Kill a container, and those it is to die with; the bytes that frees."""
        pod = container.group.rpartition("/")[0]
        doomed = [container]
        if self._cgroups.now(pod, "memory.oom.group") == 1:
            doomed = [other for other in self.held if _within(other.group, pod)]
        freed = sum(other.usage for other in doomed)
        for other in doomed:
            if at >= other.dead_until:
                killed.append(MemoryKill(at, other.group, where))
            self.swap_used -= other.swapped
            other.anon = other.hot = other.cold = other.swapped = 0.0
            other.dead_until = at + RESTART_SECONDS
            other.started = other.dead_until
        return freed

    def _take(
        self, members: Sequence[ContainerMemory], bare: Sequence[float], need: float
    ) -> float:
        """Reclaim from containers in proportion to what each has bare of protection."""
        taken = 0.0
        left = list(bare)
        for kind in ("cold", "cold anon", "hot", "hot anon"):
            parts = [
                min(self._part(container, kind), free)
                for container, free in zip(members, left, strict=True)
            ]
            whole = sum(parts)
            if kind.endswith("anon"):
                room = max(self._swap - self.swap_used, 0.0)
                parts = [part * min(1.0, room / whole) if whole else 0.0 for part in parts]
                whole = min(whole, room)
            if whole <= 0:
                continue
            share = min(1.0, (need - taken) / whole)
            for number, (container, part) in enumerate(zip(members, parts, strict=True)):
                self._lose(container, kind, part * share)
                left[number] -= part * share
            taken += whole * share
            if taken >= need - _SOME_BYTES:
                break
        return taken

    def _part(self, container: ContainerMemory, kind: str) -> float:
        if kind == "cold":
            return container.cold
        if kind == "hot":
            return container.hot
        if kind == "cold anon":
            return min(
                max(container.cold_part * container.wants - container.swapped, 0.0), container.anon
            )
        return container.anon

    def _lose(self, container: ContainerMemory, kind: str, size: float) -> None:
        if kind == "cold":
            container.cold -= size
        elif kind == "hot":
            container.hot -= size
        else:
            container.anon -= size
            container.swapped += size
            self.swap_used += size

    def _find_bounds(self) -> list[_GroupLimit]:
        members: dict[str, list[int]] = {}
        for number, container in enumerate(self.held):
            for group in _chain(container.group):
                members.setdefault(group, []).append(number)
        found = []
        # From the leaves up: a pod's own limit strikes before that of its class.
        for group in sorted(members, key=lambda name: (-name.count("/"), name)):
            high, most = (_limit(self._cgroups.now(group, knob)) for knob in ("memory.high", LIMIT))
            if min(high, most) < math.inf:
                found.append(_GroupLimit(group, tuple(members[group]), high, most))
        return found

    def _protections(self, knob: str) -> list[float]:
        """Return each container's protected bytes, as far as the groups above it are protected."""
        own: dict[str, float] = {}
        children: dict[str, set[str]] = {}
        for container in self.held:
            for group in _chain(container.group):
                own[group] = float(self._cgroups.now(group, knob) or 0)
                children.setdefault(group.rpartition("/")[0], set()).add(group)
        reach: dict[str, float] = {}

        def effective(group: str) -> float:
            if group not in reach:
                above = group.rpartition("/")[0]
                if not above:
                    reach[group] = own[group]
                else:
                    asked = sum(own[child] for child in children[above])
                    there = effective(above)
                    reach[group] = own[group] * min(1.0, there / asked) if asked else 0.0
            return reach[group]

        return [effective(container.group) for container in self.held]


def _missing(container: ContainerMemory) -> float:
    """The part of the second in which tasks wait for what was taken from them."""
    hot = (1 - container.cold_part) * container.wants_cache
    needs = (1 - container.cold_part) * container.wants + hot
    if needs <= 0:
        return 0.0
    gone = max(hot - container.hot, 0.0) + max(
        container.swapped - container.cold_part * container.wants, 0.0
    )
    return min(1.0, 2 * gone / needs)


def _chain(group: str) -> list[str]:
    parts = group.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


def _within(group: str, above: str) -> bool:
    return group == above or group.startswith(f"{above}/")


def _limit(value: object) -> float:
    return math.inf if value is None or value == NO_LIMIT else float(str(value))


def _sysctl(cgroups: SimulatedCgroups, name: str) -> float:
    text = str(cgroups.now(name, SYSCTL))
    return float(text) if text.isdecimal() else 0.0
