"""Second by second: the node, what is seen of it, what strategies decide, what that does. No IO.

    run = simulate(Scenario(pods=(web, job), slo=slo).only("cpu_suppress"), [strategy])

In each second pods come and go, the node works, collectors measure, koordlet's own round runs all
strategies (``qos_manager.core.round``), and their plans are executed at once, for the next second
on. ``qos_manager.eviction`` chooses victims; they run until their grace period is over. Time
begins at ``BEGIN``, the steady clock at 1000 s.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from koord_model.node import NodeView
from koord_model.node_slo import NodeSLO
from koord_model.qos import KubeQoS
from koord_model.resctrl import CacheWays, ResctrlLimits
from koord_prediction.histogram import Floats
from koordlet.qos_manager.core.strategy import PodView, Strategy, StrategyMode, StrategyView, owner
from koordlet.qos_manager.core.strategy_runner import RoundPlans, StrategyRunner
from koordlet.qos_manager.eviction.policy.account import EvictionAccount, grace_seconds
from koordlet.qos_manager.eviction.policy.guard import refusal
from koordlet.qos_manager.eviction.policy.selection import select_evictions
from koordlet.states_informer.kubelet_cpus import KubeletCPUs
from koordlet.states_informer.state.share_pools import topology

from koord_simulation.node_model.cgroups import SimulatedCgroups
from koord_simulation.node_model.faults import FaultKind, Faults
from koord_simulation.node_model.kubelet import Kubelet
from koord_simulation.node_model.metrics import SimulatedMetrics
from koord_simulation.node_model.node import NodeSecond, SimulatedContainer, SimulatedNode
from koord_simulation.node_model.sensors import Sensors
from koord_simulation.node_model.slowdown import CacheShare
from koord_simulation.node_model.workload import Workload
from koord_simulation.run.record import DecisionLine, EvictionLine, OOMKill, Run, blank
from koord_simulation.scenario.scenario import Scenario

BEGIN = 1_800_000_000.0
STEADY = 1_000.0
_MOST_SAID = 20_000
_RECLAIM = "memory.reclaim"


def simulate(scenario: Scenario, strategies: Sequence[Strategy] = ()) -> Run:
    """Run a scenario from beginning to end; of the strategies, those that it names."""
    simulation = Simulation(scenario, strategies)
    for _ in range(scenario.seconds):
        simulation.step()
    return simulation.run


@dataclass(slots=True)
class _RunningPod:
    """A pod that runs; ``number`` is its place in the scenario, ``ends`` when it goes."""

    number: int
    pod: Workload
    view: PodView
    leaves: list[SimulatedContainer]
    ends: float = float("inf")


class Simulation:
    """A run in progress; tests may look at its parts, or change them, between two steps."""

    def __init__(self, scenario: Scenario, strategies: Sequence[Strategy]) -> None:
        self.scenario = scenario
        self.second = 0
        self.run = blank(scenario)
        self.cgroups = SimulatedCgroups(scenario.machine)
        self.node = SimulatedNode(scenario.machine, self.cgroups)
        self.measured = SimulatedMetrics()
        self.faults = Faults(scenario.faults)
        self.sensors = Sensors(scenario.machine, self.cgroups, self.measured, self.faults)
        self._strategies = [
            strategy for strategy in strategies if strategy.name in scenario.strategies
        ]
        self._slo = scenario.slo_at(0)
        self._bare_slo = scenario.with_modes(NodeSLO())
        self._slo_due = sorted(scenario.slo_changes)
        be_quota = NodeView(slo=self._slo).be_cfs_quota
        self._kubelet = Kubelet(scenario.machine, self.cgroups, be_quota=be_quota)
        self._system = self._kubelet.system()
        self._running: dict[int, _RunningPod] = {}
        self._ended: dict[int, float] = {}
        self._cpu, self._memory = _demands(scenario)
        self._recorded: dict[tuple[str, str, str, str], str] = {}
        self._refused = 0
        self._plans: dict[str, object] = {}
        self._pods: tuple[PodView, ...] = ()
        self._node_view = NodeView()
        self._restart()
        self._turn_pods(force=True)

    def step(self) -> StrategyView:
        """One second; what strategies were shown of it, measured values being those of now."""
        second = self.second
        self.faults.turn(second)
        if self.faults.starts(FaultKind.RESTART, second):
            self._restart()
        self._turn_pods()
        state = self._work(second)
        at = BEGIN + second + self.faults.clock
        self.measured.turn(at, STEADY + second)
        machine = self.scenario.machine
        self.measured.infos = () if self.faults.has(FaultKind.NO_NODE_INFO) else machine.infos
        self.sensors.measure(second, self.node.leaves, state)
        view = self._look(at)
        found = self._rounds.decide(view)
        self._do(view, found)
        self._record(state, found)
        self.second += 1
        return view

    # ---- pods and the node

    def _turn_pods(self, *, force: bool = False) -> None:
        """Start and end pods."""
        second, changed = self.second, force
        for number, running in list(self._running.items()):
            killed = running.ends <= second
            if killed or not self._runs(number, second):
                self._kubelet.end(running.view)
                del self._running[number]
                if killed:
                    self._ended[number] = second + self.scenario.comes_back
                changed = True
        for number, pod in enumerate(self.scenario.pods):
            back = second >= self._ended.get(number, second)
            if number not in self._running and back and self._runs(number, second):
                view = pod.view(self.scenario.machine, BEGIN + second)
                leaves = self._kubelet.start(pod, view)
                for leaf in leaves:
                    leaf.held.started = second
                self._running[number] = _RunningPod(number, pod, view, leaves)
                changed = True
        if changed:
            self._changed()

    def _runs(self, number: int, second: int) -> bool:
        pod = self.scenario.pods[number]
        return pod.start <= second < pod.end and bool(np.isfinite(self._cpu[second, number + 1]))

    def _changed(self) -> None:
        """Other pods run than before."""
        running = self._running.values()
        leaves = [self._system]
        columns, parts = [0], [1]
        for pod in running:
            leaves += pod.leaves
            columns += [pod.number + 1] * len(pod.leaves)
            parts += [len(pod.leaves)] * len(pod.leaves)
        self._columns, self._parts = np.array(columns, np.intp), np.array(parts)
        self._places = np.array(columns[1:], np.intp) - 1
        self._best_effort = np.array(
            [leaf.pod is not None and leaf.pod.kube is KubeQoS.BEST_EFFORT for leaf in leaves]
        )
        self.node.set_leaves(leaves)
        self._views()

    def _views(self) -> None:
        """Update koordlet's views of pods and of the node."""
        self._pods = tuple(pod.view for pod in self._running.values())
        machine = self.scenario.machine
        pods = [pod.record.pod for pod in self._pods]
        pools = topology(machine.numa_cpus, pods, KubeletCPUs())
        self._node_view = NodeView(
            pools, slo=self._slo, kernel=machine.kernel, idle_classes=machine.idle_classes
        )

    def _work(self, second: int) -> NodeSecond:
        cpu = self._cpu[second, self._columns] / self._parts
        memory = (self._memory[second, self._columns] / self._parts).tolist()
        for leaf, wants, parts in zip(
            self.node.leaves[1:], memory[1:], self._parts.tolist()[1:], strict=True
        ):
            held, pod = leaf.held, leaf.pod
            if pod is not None:
                leaked = pod.leak * max(second - held.started, 0.0) if pod.leak else 0.0
                held.wants = wants + leaked
                held.wants_cache = pod.page_cache / parts
        return self.node.step(second, cpu, float(self._memory[second, 0]))

    # ---- strategies

    def _restart(self) -> None:
        self._rounds = StrategyRunner(self._strategies, lambda: 0.0)
        self.account = EvictionAccount(self.scenario.limits, STEADY + self.second)

    def _look(self, at: float) -> StrategyView:
        while self._slo_due and self._slo_due[0] <= self.second:
            self._slo = self.scenario.slo_at(self._slo_due.pop(0))
            self._node_view = replace(self._node_view, slo=self._slo)
        node = self._node_view
        if self.faults.has(FaultKind.NO_SLO):
            node = replace(node, slo=self._bare_slo)
        return StrategyView(
            at=at,
            steady=STEADY + self.second,
            layout=self.scenario.machine.layout,
            pods=self._pods,
            pods_known=not self.faults.has(FaultKind.PODS_UNKNOWN),
            node=node,
            latest=self.measured,
            history=self.measured,
            cgroups=self.cgroups,
            allocatable=self.scenario.machine.for_pods,
            reserved_cpu=self.scenario.machine.reserved_cpu,
            signals=self._rounds.signals,
            evicting=self.account.going,
        )

    def _do(self, view: StrategyView, found: RoundPlans) -> None:
        self.cgroups.set_desired(
            {owner(name): plan.desired for name, plan in found.done() if plan.desired}
        )
        shares = {
            group: share
            for _, plan in found.done()
            for cache in plan.caches
            for share in [cache_share(cache.limits)]
            for group in cache.groups
        }
        self.node.set_classes(shares)
        for _, one_shot in found.one_shot:
            for action in one_shot:
                if action.target.knob == _RECLAIM:
                    self.node.reclaim(action.target.place, float(action.value))
        self._evict(view, found)

    def _evict(self, view: StrategyView, found: RoundPlans) -> None:
        self.account.observe(view)
        claims = [claim for claim in found.claims if claim[1] is StrategyMode.ON]
        if not claims:
            return
        choice = select_evictions(claims, self.account.room(view.steady), refusal)
        for warned in choice.warned:
            self.account.warn(warned.pod.uid, view.steady)
        for eviction in choice.evictions:
            grace = grace_seconds(eviction.pod)
            self.account.book(
                eviction.pod, eviction.claim.resource, eviction.frees, grace, view.steady
            )
            self.account.accepted(eviction.pod.uid, view.steady)
            self._terminate(eviction.pod, grace)
            why = str(eviction.decision)
            self.run.evictions.append(
                EvictionLine(
                    self.second, eviction.pod.name, eviction.strategy, eviction.claim.rule, why
                )
            )

    def _terminate(self, pod: PodView, grace: float) -> None:
        for running in self._running.values():
            if running.view.uid == pod.uid:
                running.ends = self.second + max(grace, 1.0)
                record = pod.record
                demand = record.demand and replace(record.demand, terminating=True)
                running.view = PodView(replace(record, demand=demand), pod.group, pod.containers)
        self._views()

    # ---- what is written down

    def _record(self, state: NodeSecond, found: RoundPlans) -> None:
        run, second = self.run, self.second
        best, places = self._best_effort, self._places
        run.cpu[second] = state.given.sum()
        run.be_cpu[second] = state.given[best].sum()
        run.be_demand[second] = state.demand[best].sum() + self._missed(second)
        run.be_allowed[second] = self.sensors.be_limit / 1000
        usage = [leaf.held.usage for leaf in self.node.leaves]
        run.memory[second] = state.system_memory + sum(usage)
        run.pressure[second] = state.whole_pressure[0, 0]
        for whole, values in (
            (run.used[second], state.given),
            (run.waiting[second], state.waiting),
            (run.held[second], np.array(usage)),
        ):
            whole[places] = 0.0
            np.add.at(whole, places, values[1:])
        for whole, values in (
            (run.p50[second], state.p50),
            (run.p99[second], state.p99),
            (run.throttled[second], state.throttle),
        ):
            np.fmax.at(whole, places, np.where(values[1:] > 0, values[1:], np.nan))
        run.throttled[second][places] = np.nan_to_num(run.throttled[second][places])
        for killed in state.killed:
            name = next(
                leave.pod.full_name
                for leave in self.node.leaves
                if leave.group == killed.group and leave.pod
            )
            run.kills.append(OOMKill(second, name, killed.where))
        for refused in self.cgroups.refused[self._refused :]:
            run.refused.append((second, refused))
        self._refused = len(self.cgroups.refused)
        run.problems += [(second, line) for line in found.problems]
        self._record_decisions(found)

    def _missed(self, second: int) -> float:
        """Return the usage that evicted best-effort pods would have had."""
        return sum(
            float(self._cpu[second, number + 1])
            for number in self._ended
            if number not in self._running
            and self._runs(number, second)
            and self.scenario.pods[number].kube is KubeQoS.BEST_EFFORT
        )

    def _record_decisions(self, found: RoundPlans) -> None:
        for name, (mode, plan) in found.plans.items():
            if self._plans.get(name) is plan.decisions:
                continue
            self._plans[name] = plan.decisions
            for decision in plan.decisions:
                about = decision.pod or decision.group
                key = name, decision.pod, decision.group, decision.aspect
                if self._recorded.get(key) != decision.outcome and len(self.run.said) < _MOST_SAID:
                    self._recorded[key] = decision.outcome
                    self.run.said.append(
                        DecisionLine(self.second, name, mode, about, str(decision))
                    )


def cache_share(limits: ResctrlLimits) -> CacheShare:
    """Return a resctrl group's limits; the machine's caches are one, so no domain has its own."""
    return CacheShare(
        limits.group, limits.llc or CacheWays(), 100 if limits.mb is None else max(limits.mb, 10)
    )


def _demands(scenario: Scenario) -> tuple[Floats, Floats]:
    """Cores and bytes by second: the system's column first, then the pods'."""
    times = np.arange(scenario.seconds, dtype=np.float64)
    machine = scenario.machine

    def column(curve: object, name: str) -> Floats:
        random = np.random.RandomState(zlib.crc32(f"{scenario.seed} {name}".encode()))
        values = curve.values(times, random)  # type: ignore[attr-defined]
        return np.asarray(np.maximum(values, 0.0), np.float64)

    cpu = [column(machine.system_cpu, "system cpu")]
    memory = [column(machine.system_memory, "system memory")]
    for pod in scenario.pods:
        cpu.append(column(pod.cpu, f"{pod.full_name} cpu"))
        memory.append(column(pod.memory, f"{pod.full_name} memory"))
    whole_cpu, whole_memory = np.column_stack(cpu), np.column_stack(memory)
    whole_cpu[:, 0] = np.nan_to_num(whole_cpu[:, 0])
    return whole_cpu, np.nan_to_num(whole_memory)
