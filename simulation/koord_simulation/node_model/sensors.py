"""From the state of the node to what collectors would have sampled of it. No IO.

Each second: CPU and memory of node, pods, containers and system, throttling, best-effort pods
together. Each ten seconds: pressure, wait for CPU, cache and bandwidth of the classes, and cold
memory if the machine reports it; cycles and instructions each minute, for a clock of 2 GHz and 2
instructions a cycle on an idle machine. Pressure of IO is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from koord_host.knobs.forms import NO_LIMIT
from koord_host.planning.ordering import PERIOD, QUOTA
from koord_model.keys import BATCH_CPU
from koord_model.qos import KubeQoS, QoSClass
from koord_model.resctrl import CLASS_GROUPS, class_group
from koord_prediction.histogram import Floats

from koord_simulation.node_model.cgroups import SimulatedCgroups
from koord_simulation.node_model.faults import FaultKind, Faults
from koord_simulation.node_model.machine import SimulatedMachine
from koord_simulation.node_model.metrics import Labels, SimulatedMetrics
from koord_simulation.node_model.node import WINDOWS, NodeSecond, SimulatedContainer

_NODE: tuple[Labels, ...] = ((),)
_BE: tuple[Labels, ...] = (("cpu", "usage"), ("cpu", "request"), ("cpu", "real-limit"))
_PRESSURES = (("cpu", "some"), ("cpu", "full"), ("mem", "some"), ("mem", "full"), ("io", "some"),
              ("io", "full"))  # fmt: skip
_HERTZ, _PER_CYCLE = 2e9, 2.0
_PERIODS = 10
"""Of a quota, in a second."""


class Sensors:
    """Measures one second after the other."""

    def __init__(
        self,
        machine: SimulatedMachine,
        cgroups: SimulatedCgroups,
        measured: SimulatedMetrics,
        faults: Faults,
    ) -> None:
        self._machine = machine
        self._cgroups = cgroups
        self._measured = measured
        self._faults = faults
        self._be = machine.layout.kube_qos_group(KubeQoS.BEST_EFFORT)
        self._stuck: dict[str, tuple[Sequence[Labels], Floats]] = {}
        self._of: Sequence[SimulatedContainer] = ()
        self._cpus_seen = -1
        self._real_limit = 0.0
        self._numa = tuple((str(node),) for node in machine.numa_cpus)
        self._numa_masks = [sum(1 << cpu for cpu in cpus) for cpus in machine.numa_cpus.values()]
        self._node_pressures = tuple(
            (resource, f"avg{window:.0f}", degree)
            for window in WINDOWS
            for resource, degree in _PRESSURES
        )

    def measure(self, second: int, leaves: Sequence[SimulatedContainer], state: NodeSecond) -> None:
        """Take what this second of the run was."""
        if leaves is not self._of:
            self._lay_out(leaves)
        self._waited += state.waiting[self._pods]
        self._ran += state.given[self._pods]
        held = [leaf.held for leaf in leaves]
        anon = np.array([container.anon for container in held])
        cache = np.array([container.cache for container in held])
        self._each_second(state, anon, cache)
        if second % 10 == 0:
            cold = np.array([container.cold_bytes for container in held])
            self._each_ten(state, anon + cache, np.minimum(cold, cache))
        if second % 60 == 0:
            self._cycles(state)

    def _lay_out(self, leaves: Sequence[SimulatedContainer]) -> None:
        self._of = leaves
        self._pods = np.array([n for n, leaf in enumerate(leaves) if leaf.pod], np.intp)
        own = [leaf for leaf in leaves if leaf.pod]
        uids = list(dict.fromkeys(leaf.uid for leaf in own))
        self._pod_of = np.array([uids.index(leaf.uid) for leaf in own], np.intp)
        self._count = len(uids)
        self._pod_labels = tuple((uid,) for uid in uids)
        self._labels = tuple((leaf.uid, leaf.container) for leaf in own)
        self._pod_pressures = _pressures(self._pod_labels)
        self._pressures = _pressures(self._labels)
        self._best_effort = np.array([leaf.group.startswith(f"{self._be}/") for leaf in own], bool)
        self._be_groups = [leaf.group for leaf in own if leaf.group.startswith(f"{self._be}/")]
        batch = {leaf.uid: leaf.pod for leaf in own if leaf.pod and leaf.pod.qos is QoSClass.BE}
        self._request = float(sum(pod.requests.get(BATCH_CPU, 0) for pod in batch.values()))
        classes = [class_group(leaf.pod.qos) if leaf.pod else "" for leaf in own]
        self._classes = {
            name: np.array([class_name == name for class_name in classes], bool)
            for name in CLASS_GROUPS
        }
        self._cycle_labels = tuple((*label, "cycle") for label in self._labels)
        self._instruction_labels = tuple((*label, "instruction") for label in self._labels)
        self._cpus_seen = -1
        self._owed = np.zeros(len(own))
        self._waited, self._ran = np.zeros(len(own)), np.zeros(len(own))

    def _counted(self, throttle: Floats) -> Floats:
        """Throttling as the kernel counts it, in whole periods; what is less adds up to one."""
        owed = self._owed + np.nan_to_num(throttle) * _PERIODS
        whole = np.floor(owed + 1e-9)
        self._owed = owed - whole
        return np.asarray(np.where(np.isnan(throttle), np.nan, whole / _PERIODS), np.float64)

    def _each_second(self, state: NodeSecond, anon: Floats, cache: Floats) -> None:
        put, pods = self._put, self._pods
        given = state.given[pods]
        system = float(state.given.sum() - given.sum())
        memory, with_cache = anon[pods], (anon + cache)[pods]
        whole = float(memory.sum())
        self._one("node_cpu_usage", float(state.given.sum()))
        self._one("sys_cpu_usage", system)
        self._one("node_memory_usage", state.system_memory + whole)
        self._one("sys_memory_usage", state.system_memory)
        self._one(
            "node_memory_usage_with_page_cache", state.system_memory + float(with_cache.sum())
        )
        best = float(given[self._best_effort].sum())
        put("node_be", _BE, np.array([1000 * best, self._request, self.be_limit]))
        put("node_numa_cpu_usage", self._numa, self._by_numa(state))
        put("pod_cpu_usage", self._pod_labels, self._sum(given))
        put("container_cpu_usage", self._labels, given)
        put("pod_memory_usage", self._pod_labels, self._sum(memory))
        put("container_memory_usage", self._labels, memory)
        put("pod_memory_usage_with_page_cache", self._pod_labels, self._sum(with_cache))
        put("container_memory_usage_with_page_cache", self._labels, with_cache)
        throttle = self._counted(state.throttle[pods])
        put("container_cpu_throttled", self._labels, throttle)
        put("pod_cpu_throttled", self._pod_labels, self._most(throttle))

    def _each_ten(self, state: NodeSecond, used: Floats, cold: Floats) -> None:
        put, pods = self._put, self._pods
        full = np.zeros((len(pods), 6))
        full[:, :4] = state.pressure[pods]
        put("container_psi", self._pressures, full.ravel())
        of_pods = np.zeros((self._count, 6))
        np.maximum.at(of_pods, self._pod_of, full)
        put("pod_psi", self._pod_pressures, of_pods.ravel())
        put("container_cpu_sched_wait", self._labels, _wait(self._waited, self._ran))
        wait_of_pods = _wait(self._sum(self._waited), self._sum(self._ran))
        put("pod_cpu_sched_wait", self._pod_labels, wait_of_pods)
        self._waited, self._ran = np.zeros(len(pods)), np.zeros(len(pods))
        whole = np.zeros((len(WINDOWS), 6))
        whole[:, :4] = state.whole_pressure
        put("node_psi", self._node_pressures, whole.ravel())
        ones = np.ones(len(pods))
        put("container_psi_cpu_full_supported", self._labels, ones)
        put("pod_psi_cpu_full_supported", self._pod_labels, np.ones(self._count))
        if self._machine.resctrl:
            self._resctrl(state)
        if self._machine.tells_cold:
            for who, labels, of in (
                ("node", _NODE, lambda part: np.array([part.sum()])),
                ("pod", self._pod_labels, self._sum),
                ("container", self._labels, lambda part: part),
            ):
                self._cold(who, labels, of(cold[pods]), of(used[pods]), state)

    def _cold(
        self, who: str, labels: Sequence[Labels], cold: Floats, used: Floats, state: NodeSecond
    ) -> None:
        beside = state.system_memory if who == "node" else 0.0
        self._put(f"{who}_memory_cold_page_size", labels, cold)
        self._put(f"{who}_memory_usage_with_hot_page_usage", labels, used - cold + beside)

    def _resctrl(self, state: NodeSecond) -> None:
        names = tuple((name, "0") for name in self._classes)
        pods = self._pods
        occupied = [float(state.occupied[pods][of].sum()) for of in self._classes.values()]
        moved = [float(state.moved[pods][of].sum()) for of in self._classes.values()]
        self._put("resctrl_resource_llc", names, np.array(occupied))
        totals = tuple((*labels, "total") for labels in names)
        self._put("resctrl_resource_mb", totals, np.array(moved))

    def _cycles(self, state: NodeSecond) -> None:
        cycles = state.given[self._pods] * _HERTZ * 10
        ran = np.where(cycles > 0, cycles, np.nan)
        self._put("container_cpi", self._cycle_labels, ran)
        done = ran * _PER_CYCLE / state.slowed[self._pods]
        self._put("container_cpi", self._instruction_labels, done)

    def _by_numa(self, state: NodeSecond) -> Floats:
        found = np.zeros(len(self._numa))
        for mask, busy in state.busy:
            for number, node in enumerate(self._numa_masks):
                found[number] += busy * (mask & node).bit_count()
        return found

    @property
    def be_limit(self) -> float:
        """Return the millicores of best-effort pods, as the collector computes them."""
        if self._cpus_seen != self._cgroups.changes:
            self._cpus_seen = self._cgroups.changes
            groups = [self._be, *self._be_groups]
            limits = [1000.0 * len(self._cgroups.cpus(group)) for group in groups]
            quota = int(self._cgroups.now(self._be, QUOTA) or NO_LIMIT)
            if quota != NO_LIMIT:
                limits.append(1000.0 * quota / int(self._cgroups.now(self._be, PERIOD) or 100_000))
            self._real_limit = min(limits)
        return self._real_limit

    def _sum(self, by_container: Floats) -> Floats:
        return np.asarray(np.bincount(self._pod_of, by_container, self._count), np.float64)

    def _most(self, by_container: Floats) -> Floats:
        found = np.full(self._count, np.nan)
        np.fmax.at(found, self._pod_of, by_container)
        return found

    def _one(self, kind: str, value: float) -> None:
        self._put(kind, _NODE, np.array([value]))

    def _put(self, kind: str, labels: Sequence[Labels], values: Floats) -> None:
        if self._faults.any_metrics:
            if self._faults.of_metric(FaultKind.MISSING, kind):
                return
            if self._faults.of_metric(FaultKind.STUCK, kind):
                labels, values = self._stuck.setdefault(kind, (labels, values))
            else:
                self._stuck.pop(kind, None)
        elif self._stuck:
            self._stuck = {}
        self._measured.put(kind, labels, values)


def _pressures(labels: Sequence[Labels]) -> tuple[Labels, ...]:
    return tuple(
        (*label, resource, "avg10", degree) for label in labels for resource, degree in _PRESSURES
    )


def _wait(waited: Floats, ran: Floats) -> Floats:
    """Milliseconds waited for each second of CPU; NaN of what did not run."""
    return np.asarray(1000 * waited / np.where(ran > 0, ran, np.nan), np.float64)
