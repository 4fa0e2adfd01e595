"""The node, second by second: from what pods would use to what they get and how they fare. No IO.

CPU (``sharing``), neighbours (``slowing``), memory (``memory``), latency (``latency``). What a
container that serves requests has to do takes as much more CPU as it was slowed down a
second before, and what was left over is done later. Waiting for memory makes a request longer
by the part of the time that it takes. Disks and network are not in the model: what is desired of
them is kept and does nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from koord_prediction.histogram import Floats

from koord_simulation.node_model.cgroups import SimulatedCgroups
from koord_simulation.node_model.cpu_sharing import CPUSharing
from koord_simulation.node_model.latency import PATIENCE_SECONDS, latency, throttled
from koord_simulation.node_model.machine import SimulatedMachine
from koord_simulation.node_model.memory import ContainerMemory, MemoryKill, MemoryModel
from koord_simulation.node_model.slowdown import CacheShare, SlowdownModel, shares_of
from koord_simulation.node_model.workload import Workload

SYSTEM_GROUP = "system.slice"
WINDOWS = (10.0, 60.0, 300.0)
"""Seconds over which pressure is averaged."""


@dataclass(slots=True)
class SimulatedContainer:
    """A container, or what runs beside the pods (no ``pod``)."""

    group: str
    held: ContainerMemory
    pod: Workload | None = None
    uid: str = ""
    container: str = ""


class NodeSecond(NamedTuple):
    """One second of the node, by container in the order of ``SimulatedNode.leaves``.

    ``demand`` (what it would use) and ``given`` are cores, ``throttle`` the part of
    periods with throttling (NaN without a quota), ``p50`` and ``p99`` milliseconds (0 of those
    that serve nothing). ``waiting`` is how many tasks wait for a CPU at any time, those that are
    throttled or were left over too. ``pressure`` has a row a container: CPU some, CPU full, memory
    some, memory full, in percent over 10 s; ``whole_pressure`` the node's, a row each of
    ``WINDOWS``. ``slowed`` is how many times slower work is, ``occupied`` bytes of cache.
    """

    demand: Floats
    given: Floats
    throttle: Floats
    p50: Floats
    p99: Floats
    waiting: Floats
    pressure: Floats
    whole_pressure: Floats
    slowed: Floats
    occupied: Floats
    moved: Floats
    busy: tuple[tuple[int, float], ...]
    system_memory: float
    killed: tuple[MemoryKill, ...] = ()


class SimulatedNode:
    """The physical node; ``leaves`` are set by the code that starts and ends pods."""

    def __init__(self, machine: SimulatedMachine, cgroups: SimulatedCgroups) -> None:
        self.leaves: list[SimulatedContainer] = []
        self._machine = machine
        self._cgroups = cgroups
        self._classes: Mapping[str, CacheShare] = {}
        self._seen = -1
        self._stale = True
        self._swap_used = 0.0
        self._whole = np.zeros((len(WINDOWS), 4))
        self._keep = np.exp(-1 / np.array(WINDOWS))[:, None]
        self._kept: dict[str, tuple[float, float, Floats]] = {}
        self._memory: MemoryModel | None = None
        # By container: CPU seconds left over, slowness, pressure, what latency wants to know.
        self._behind: Floats = np.zeros(0)
        self._slow: Floats = np.ones(0)
        self._pressure: Floats = np.zeros((0, 4))
        self._service: Floats = np.zeros(0)
        self._serves = np.zeros(0, np.bool_)
        self._burstiness: Floats = np.zeros(0)

    def set_leaves(self, leaves: Sequence[SimulatedContainer]) -> None:
        """Other containers run from now on; those that stay go on as they were."""
        if self._memory is not None:
            for number, leaf in enumerate(self.leaves):
                row = (self._behind[number], self._slow[number], self._pressure[number])
                self._kept[leaf.group] = row
            self._swap_used = sum(leaf.held.swapped for leaf in leaves)
        self.leaves = list(leaves)
        self._stale = True

    def set_classes(self, classes: Mapping[str, CacheShare]) -> None:
        """Assign cgroups' tasks to resctrl groups."""
        if classes != self._classes:
            self._classes = classes
            self._stale = True

    def reclaim(self, group: str, size: float) -> float:
        """Proactive reclaim; the bytes that were found."""
        return self._memory.reclaim(group, size) if self._memory is not None else 0.0

    def step(self, at: float, cpu: Floats, system_memory: float) -> NodeSecond:
        """A second in which containers would use so many cores; memory is in their ``held``."""
        memory, sharing = self._ready()
        killed = memory.step(at, system_memory)
        alive = np.array([at >= leaf.held.dead_until for leaf in self.leaves])
        self._behind *= alive
        demand = np.where(self._serves, cpu * self._slow + self._behind, cpu) * alive
        shared = sharing.share(demand.tolist())
        given, wanted = np.array(shared.given), np.array(shared.wanted)
        slowed = self._slowing.step(given, shared.busy)
        self._slow = slowed.times
        most = PATIENCE_SECONDS * cpu * self._slow
        self._behind = np.where(self._serves, np.clip(demand - given, 0.0, most), 0.0)
        throttle = throttled(
            np.minimum(demand, self._sizes), self._quotas, self._bursts, self._burstiness
        )
        stall = np.array([leaf.held.stall for leaf in self.leaves])
        found = latency(
            self._service * slowed.times / (1 - 0.9 * stall),
            sharing.pressing @ wanted,
            self._sizes,
            wanted,
            throttle,
            self._behind / np.maximum(given, 1e-3),
        )
        waiting = np.where(self._serves, found.waiting, 0.0) + np.maximum(demand - given, 0.0)
        self._press(waiting, demand, stall)
        return NodeSecond(
            demand,
            given,
            np.where(np.isfinite(self._quotas) & (demand > 0), throttle, np.nan),
            np.where(self._serves & alive, found.p50, 0.0),
            np.where(self._serves & alive, found.p99, 0.0),
            waiting,
            self._pressure,
            self._whole,
            slowed.times,
            slowed.occupied,
            slowed.moved,
            tuple((atom.mask, part) for atom, part in zip(sharing.atoms, shared.busy, strict=True)),
            system_memory,
            tuple(killed),
        )

    def _press(self, waiting: Floats, demand: Floats, stall: Floats) -> None:
        """Let pressure follow what happened.

        Some task waits as often as one of a Poisson number of them does. All tasks of a
        container wait while its quota is spent; for memory, in the square of what some do.
        """
        stopped = np.where(demand > self._quotas, 1 - self._quotas / np.maximum(demand, 1e-9), 0.0)
        some = 1 - np.exp(-waiting)
        now = 100 * np.stack([some, np.minimum(stopped, some), stall, stall**2], axis=1)
        keep = self._keep[0, 0]
        self._pressure = now + keep * (self._pressure - now)
        unstalled = float(np.prod(1 - stall))
        whole = 100 * np.array(
            [
                1 - math.exp(-float(waiting.sum())),
                0.0,
                1 - unstalled,
                float((stall**2).min(initial=1.0)),
            ]
        )
        self._whole = whole + self._keep * (self._whole - whole)

    def _ready(self) -> tuple[MemoryModel, CPUSharing]:
        if self._stale:
            self._restart()
        if self._memory is None or self._stale or self._seen != self._cgroups.changes:
            self._memory = self._read_knobs()
        return self._memory, self._sharing

    def _restart(self) -> None:
        """Lay out anew what is remembered of containers."""
        fresh = (0.0, 1.0, np.zeros(4))
        rows = [self._kept.get(leaf.group, fresh) for leaf in self.leaves]
        self._behind = np.array([row[0] for row in rows])
        self._slow = np.array([row[1] for row in rows])
        self._pressure = np.array([row[2] for row in rows]).reshape(len(rows), 4)
        self._kept = {}
        pods = [leaf.pod for leaf in self.leaves]
        self._service = np.array([pod.service if pod else 0.0 for pod in pods])
        self._serves = self._service > 0
        self._burstiness = np.array([pod.burstiness if pod else 0.0 for pod in pods])

    def _read_knobs(self) -> MemoryModel:
        groups = [leaf.group for leaf in self.leaves]
        self._sharing = CPUSharing(self._machine, self._cgroups, groups)
        self._sizes = np.array(self._sharing.sizes, np.float64)
        self._quotas = np.array(self._sharing.quotas)
        self._bursts = np.array(self._sharing.bursts)
        wants = [
            (leaf.pod.llc_bytes, leaf.pod.llc_sensitivity, leaf.pod.bandwidth)
            if leaf.pod
            else (0.5e6, 0.0, 1e9)
            for leaf in self.leaves
        ]
        shares = shares_of(groups, self._classes)
        self._slowing = SlowdownModel(self._machine, self._sharing, wants, shares)
        held = [leaf.held for leaf in self.leaves]
        swap_used = self._memory.swap_used if self._memory and not self._stale else self._swap_used
        self._seen = self._cgroups.changes
        self._stale = False
        return MemoryModel(self._machine, self._cgroups, held, swap_used)
