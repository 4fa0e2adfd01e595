from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.planning.desired_values import DesiredValue, Target
from koord_model.node_slo import NodeSLO
from koord_model.resctrl import CacheWays, ResctrlLimits
from koord_model.used_threshold import UsedThreshold
from koord_simulation.node_model.curves import Noise
from koord_simulation.node_model.faults import Fault, FaultKind
from koord_simulation.node_model.machine import GIB, SimulatedMachine
from koord_simulation.node_model.slowdown import CacheShare
from koord_simulation.run.simulation import Simulation, cache_share, simulate
from koordlet.qos_manager.core.strategy import (
    CacheClass,
    Decision,
    EvictionClaim,
    EvictionVictim,
    Plan,
    PodView,
    StrategyMode,
    StrategySignal,
    StrategyView,
)

from tests.simulation.stories import Recorder, job, on, story, web
from tests.support.examples import fewer

BE = "kubepods/besteffort"


def held(cpus: str) -> Plan:
    return Plan(
        desired=(DesiredValue(Target(BE, "cpuset.cpus"), cpus),), decisions=(Decision(cpus),)
    )


def test_what_a_strategy_wishes_holds_from_the_next_second_on() -> None:
    strategy = Recorder(Plan(), held("0-1"), held("0-1"), Plan())
    run = simulate(on(story(job(cpu=6), seconds=6)), [strategy.strategy])
    assert run.be_cpu == pytest.approx([6, 6, 2, 2, 6, 6], abs=0.15)
    assert run.be_allowed[2] == 2
    assert [(one.at, one.outcome) for one in run.said] == [(1, "0-1")]


def test_a_shadow_is_asked_and_does_nothing() -> None:
    strategy = Recorder(held("0-1"))
    scenario = story(job(cpu=6), strategies={"recorder": StrategyMode.SHADOW})
    run = simulate(scenario, [strategy.strategy])
    assert run.be_cpu[-1] == pytest.approx(6)
    assert run.said[0].mode is StrategyMode.SHADOW
    assert len(strategy.views) == 30
    unnamed = Recorder(held("0-1"))
    simulate(story(job()), [unnamed.strategy])
    assert unnamed.views == []


def test_a_strategy_sees_what_the_node_was() -> None:
    strategy = Recorder(Plan(signals=(StrategySignal("level", 3.0),)))
    simulate(on(story(web(cpu=1), job(cpu=2))), [strategy.strategy])
    first, last = strategy.views[0], strategy.views[-1]
    assert (last.at - first.at, last.steady - first.steady) == (29, 29)
    assert len(last.cpus) == 8
    assert last.memory_bytes == 16 * GIB
    assert last.allocatable["cpu"] == 8000
    assert last.signal("recorder", "level") == 3.0
    assert first.signal("recorder", "level") is None
    assert first.pods[0] is last.pods[0]
    assert last.node.topology is not None
    assert last.node.topology.online == "0-7"
    assert last.cgroups.now(BE, "cpu.shares") == 2


def test_what_is_measured_now_is_of_the_last_second() -> None:
    seen: list[tuple[float | None, float]] = []

    class Reader(Recorder):
        def plan(self, view: StrategyView, settings: object, memory: object) -> Plan:
            found = view.history.windows("node_cpu_usage", 10)[()]
            seen.append((view.latest.value("node_cpu_usage"), found.points))
            return Plan()

    simulate(on(story(web(cpu=1))), [Reader().strategy])
    assert seen[0][1] == 1
    assert seen[-1][1] == 11
    assert seen[-1][0] == pytest.approx(1.5, rel=0.05)


def test_the_memory_of_a_strategy_is_kept_until_koordlet_is_restarted() -> None:
    strategy = Recorder(Plan(memory="mine"))
    simulate(on(story(faults=(Fault(FaultKind.RESTART, 10),))), [strategy.strategy])
    assert strategy.memories[:3] == [None, "mine", "mine"]
    assert [n for n, one in enumerate(strategy.memories) if one is None] == [0, 10]


def test_faults_show_in_the_view() -> None:
    faults = (
        Fault(FaultKind.CLOCK, 5, 8, seconds=-100),
        Fault(FaultKind.PODS_UNKNOWN, 10, 12),
        Fault(FaultKind.NO_SLO, 15, 17),
        Fault(FaultKind.NO_NODE_INFO, 20, 22),
    )
    slo = NodeSLO(threshold=UsedThreshold(enable=True))
    strategy = Recorder()
    simulate(on(story(web(), slo=slo, faults=faults)), [strategy.strategy])
    views = strategy.views
    off = [n for n, one in enumerate(views) if one.at - one.steady != views[0].at - 1000]
    assert off == [5, 6, 7]
    assert [n for n, one in enumerate(views) if not one.pods_known] == [10, 11]
    assert [n for n, one in enumerate(views) if not one.slo.threshold.enable] == [15, 16]
    assert [n for n, known in enumerate(strategy.cpus_known) if not known] == [20, 21]
    assert all(one.pods for one in views)


def test_the_slo_may_change() -> None:
    strategy = Recorder()
    later = NodeSLO(threshold=UsedThreshold(cpu_suppress=33))
    simulate(on(story(slo_changes={10: later})), [strategy.strategy])
    assert [view.slo.threshold.cpu_suppress for view in strategy.views[9:11]] == [65, 33]


def test_pods_come_and_go() -> None:
    strategy = Recorder()
    run = simulate(
        on(story(web(start=5, end=20), job(start=10, containers=2))), [strategy.strategy]
    )
    counts = [len(view.pods) for view in strategy.views]
    assert counts == [0] * 5 + [1] * 5 + [2] * 10 + [1] * 10
    assert np.isfinite(run.p99_of("web")).tolist() == [False] * 5 + [True] * 15 + [False] * 10
    assert np.isfinite(run.used[:, 1]).sum() == 20


def claim(pod: PodView) -> Plan:
    victims, why = (EvictionVictim(pod, GIB),), Decision("too full")
    return Plan(claims=(EvictionClaim("beMemoryUsage", "memory", GIB, victims, why, opt_in=False),))


class Evictor(Recorder):
    """Claims the first pod there is."""

    def plan(self, view: StrategyView, settings: object, memory: object) -> Plan:
        super().plan(view, settings, memory)  # type: ignore[arg-type]
        return claim(view.pods[0]) if view.pods else Plan()


def test_an_evicted_pod_ends_after_its_grace_and_comes_back() -> None:
    strategy = Evictor()
    run = simulate(on(story(job(cpu=2), seconds=60, comes_back=10.0)), [strategy.strategy])
    assert run.evicted() == ["default/job"] * 2
    at = int(run.evictions[0].at)
    assert at == 4, "koordlet's cool time holds after its start"
    assert "too full" in run.evictions[0].why
    there = np.isfinite(run.used[:, 0])
    assert there[: at + 30].all()
    assert not there[at + 30 : at + 40].any()
    assert there[at + 40 :].all()
    assert strategy.views[at + 1].evicting == {"uid-default-job"}
    demand = strategy.views[at + 1].pods[0].demand
    assert demand is not None
    assert demand.terminating
    assert run.be_demand[at + 35] == pytest.approx(2), "what it could not do is known"


def test_pods_that_may_not_be_evicted_stay() -> None:
    run = simulate(on(story(job(namespace="kube-system"), seconds=60)), [Evictor().strategy])
    assert run.evicted() == []


def test_notice_is_given_first() -> None:
    class Polite(Evictor):
        def plan(self, view: StrategyView, settings: object, memory: object) -> Plan:
            found = super().plan(view, settings, memory)
            return Plan(claims=tuple(replace(one, notice_seconds=20) for one in found.claims))

    run = simulate(on(story(job(), seconds=60)), [Polite().strategy])
    assert [one.at for one in run.evictions] == [24]


def test_deeds_and_cache_classes_reach_the_node() -> None:
    group = f"{BE}/poduid-default-job"
    half = CacheClass(ResctrlLimits("BE", CacheWays(0, 20)), (f"{group}/job-c0",))
    action = DesiredValue(Target(group, "memory.reclaim"), GIB)
    other = DesiredValue(Target(group, "memory.high"), 1)
    strategy = Recorder(
        Plan(), Plan(one_shot=(action, other), caches=(half,)), Plan(caches=(half,))
    )
    run = simulate(
        on(story(web(cpu=1), job(cpu=6, page_cache=2 * GIB, cold=0.9), seconds=6)),
        [strategy.strategy],
    )
    assert run.held[0, 1] == pytest.approx(3 * GIB)
    assert run.held[1, 1] == pytest.approx(2 * GIB, rel=0.02)
    free = simulate(story(web(cpu=1), job(cpu=6, page_cache=2 * GIB, cold=0.9), seconds=6))
    assert run.p99[5, 0] < free.p99[5, 0]


@pytest.mark.parametrize(
    ("limits", "share"),
    [
        (ResctrlLimits("BE"), CacheShare("BE", CacheWays(0, 100), 100)),
        (ResctrlLimits("BE", CacheWays(0, 30), 50), CacheShare("BE", CacheWays(0, 30), 50)),
        (ResctrlLimits("LS", mb=0), CacheShare("LS", CacheWays(0, 100), 10)),
    ],
)
def test_resctrl_groups(limits: ResctrlLimits, share: CacheShare) -> None:
    assert cache_share(limits) == share


def test_what_the_kernel_refuses_and_strategies_do_wrong_is_reported() -> None:
    wrong = Plan(desired=(DesiredValue(Target("nowhere", "cpu.idle"), 1),))

    class Broken(Recorder):
        def plan(self, view: StrategyView, settings: object, memory: object) -> Plan:
            if len(self.views) > 5:
                raise RuntimeError("broken")
            return super().plan(view, settings, memory)  # type: ignore[arg-type]

    run = simulate(on(story()), [Broken(wrong).strategy])
    assert [(at, "no such group" in one.why) for at, one in run.refused] == [(0, True)]
    assert len(run.problems) == 1
    assert "broken" in run.problems[0][1]


def test_runs_are_the_same_for_the_same_seed() -> None:
    pods = (web(), job())
    noisy = tuple(type(pod)(**{**vars(pod), "cpu": pod.cpu + Noise(0.3)}) for pod in pods)
    one, same, other = (simulate(story(*noisy, seed=seed)) for seed in (1, 1, 2))
    assert np.array_equal(one.p99, same.p99, equal_nan=True)
    assert not np.array_equal(one.cpu, other.cpu)


def test_a_kill_is_reported_with_its_pod() -> None:
    run = simulate(story(job(leak=2 * GIB, limits={"kubernetes.io/batch-memory": 4 * GIB})))
    assert run.kills[0].pod == "default/job"
    assert run.kills[0].where.endswith("job-c0")


@fewer(5)
@given(st.integers(1, 2), st.booleans(), st.integers(1, 3))
def test_any_machine_runs(version: int, vendor: bool, containers: int) -> None:
    machine = SimulatedMachine(
        cpus=4, memory=16 * GIB, cgroup_version=version, vendor_kernel=vendor
    )
    simulation = Simulation(story(web(containers=containers), job(), machine=machine), ())
    for _ in range(5):
        simulation.step()
    assert simulation.run.cpu[4] > 0
