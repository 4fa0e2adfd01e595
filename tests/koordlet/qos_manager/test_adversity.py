"""All strategies when clocks jump, machines sleep, nothing is measured and rules are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from koord_host.knobs.layout import Driver
from koord_model.qos import QoSClass
from koordlet.metric_cache.core.metric_kinds import KINDS

from tests.support.node.strategies import SETTLED, StrategyNode, StrategyRun
from tests.support.node.workload import everything_on, measured, some_pods

PODS = (QoSClass.LSE, QoSClass.LSR, QoSClass.LS, QoSClass.BE, QoSClass.NONE, QoSClass.BE)
DAY = 86_400.0
CALM = {"pressure_suppress": {"mode": "off"}}
"""What moves on and on while nothing else does would only blur what is compared."""
NOTHING = tuple(KINDS)


@pytest.fixture
def node(tmp_path: Path) -> StrategyNode:
    made = StrategyNode(tmp_path, 2, Driver.SYSTEMD, vendor=True, iocost=True)
    made.start(*some_pods(made.layout, *PODS))
    made.slo = everything_on(**CALM)
    look(made, 0.6)
    return made


@pytest.fixture
def run(node: StrategyNode) -> Iterator[StrategyRun]:
    with node.run() as begun:
        begun.comes_to_rest()
        yield begun


def look(node: StrategyNode, load: float, *missing: str) -> None:
    node.measured = measured(node.pods, load, 3, missing, at=node.wall)


def writes(node: StrategyNode) -> list[tuple[str, str]]:
    return [one for one in node.files.writes if not one[0].endswith("/memory.reclaim")]


def well(run: StrategyRun) -> None:
    assert [one for one in run.rounds.states() if one.failures or one.overruns] == []


def rounds_of(run: StrategyRun) -> dict[str, int]:
    return {one.name: one.rounds for one in run.rounds.states()}


def best_effort_cpus(node: StrategyNode) -> frozenset[int]:
    return node.cpus(node.layout.kube_qos_group(node.pods[3].kube))


# ---- time


@pytest.mark.parametrize("jump", [DAY, -DAY, -1.8e9], ids=["forth", "back", "to 1970"])
def test_the_wall_clock_jumps(node: StrategyNode, run: StrategyRun, jump: float) -> None:
    before, values = writes(node), node.values()
    node.wall += jump
    # Windows end at the wall clock: at first they are empty, and what is newest is stale.
    look(node, 0.6, *NOTHING)
    run.rounds_of(*[1.0] * 12)
    look(node, 0.6)
    run.rounds_of(*[1.0] * 12)
    for _ in range(12):  # it stands still alone
        node.wall -= 1.0
        run.round()
    well(run)
    assert (writes(node), node.values()) == (before, values)


def test_a_machine_that_slept_makes_up_for_nothing(node: StrategyNode, run: StrategyRun) -> None:
    """All that was measured is old; then there is room again, and it is taken step by step."""
    had, asked = best_effort_cpus(node), rounds_of(run)
    look(node, 0.6, *NOTHING)
    run.round(8 * 3600.0)
    assert {rounds - asked[name] for name, rounds in rounds_of(run).items() if rounds} == {1}
    assert best_effort_cpus(node) == had
    look(node, 0.05)
    run.round()
    # A tenth of 16 CPUs at once, rounded up.
    assert len(best_effort_cpus(node)) <= len(had) + 2
    well(run)


# ---- what is not known


@pytest.mark.parametrize("known", [True, False], ids=["nothing is measured", "nor pods known"])
def test_what_is_not_known_changes_nothing(
    node: StrategyNode, run: StrategyRun, known: bool
) -> None:
    before, node.pods_known = writes(node), known
    look(node, 0.99, *NOTHING, "infos")
    run.rounds_of(*[10.0] * 60)
    well(run)
    assert writes(node) == before
    assert run.found is not None
    assert run.found.claims == []


def test_after_a_restart_nothing_is_put_back_before_pods_are_known(node: StrategyNode) -> None:
    with node.run() as run:
        run.comes_to_rest()
    values = node.values()
    pods, node.pods, node.pods_known = node.pods, [], False
    look(node, 0.6, *NOTHING, "infos")
    with node.run() as run:
        run.rounds_of(1.0, SETTLED, SETTLED, 61.0)
        well(run)
        assert node.values() == values
        node.pods, node.pods_known = pods, True
        look(node, 0.6)
        run.rounds_of(1.0, SETTLED, SETTLED, 61.0)
        assert node.values() == values


# ---- rules

OURS = "extensions.pykoord.strategies"
THRESHOLD = "resourceUsedThresholdWithBE"


@pytest.mark.parametrize(
    ("where", "wrong", "line"),
    [
        (THRESHOLD, "on", THRESHOLD),
        (f"{THRESHOLD}.cpuSuppressThresholdPercent", 650, f"{THRESHOLD}.cpuSuppressThreshold"),
        (f"{THRESHOLD}.cpuSuppressPolicy", "cpusets", f"{THRESHOLD}.cpuSuppressPolicy"),
        ("cpuBurstStrategy.policy", "all", "cpuBurstStrategy.policy"),
        ("resourceQOSStrategy", [], "resourceQOSStrategy"),
        ("resourceQOSStrategy.beClass.blkioQOS.blocks", [{"ioCfg": {"readBPS": 1}}], ""),
        ("systemStrategy.minFreeKbytesFactor", -1, "systemStrategy.minFreeKbytesFactor"),
        (f"{OURS}.cpu_suppress", {"mode": "onn"}, f"{OURS}.cpu_suppress.mode"),
        (f"{OURS}.cpu_suppress", {"treshold_percent": 60}, f"{OURS}.cpu_suppress.treshold_percent"),
        (f"{OURS}.cpu_suppress", {"threshold_percent": {"of": 1}}, f"{OURS}.cpu_suppress.threshol"),
        (f"{OURS}.cpu_supress", {"mode": "off"}, f'{OURS} names "cpu_supress"'),
        (f"{OURS}.cpu_suppress", "off", f"{OURS}.cpu_suppress"),
    ],
)
def test_what_is_wrong_in_it_costs_one_line_and_nothing_else(
    node: StrategyNode, run: StrategyRun, where: str, wrong: Any, line: str
) -> None:
    good = everything_on(**CALM)
    node.slo = changed(good, where, wrong)
    run.rounds_of(1.0, 1.0, 5.0, 61.0)
    assert len({one.partition(" is ")[0].split(";")[0] for one in run.said}) == 1
    assert run.said[0].startswith(f"NodeSLO {line or where}"), run.said
    well(run)
    # All the rest works: as if that had not been written.
    values, logged = node.values(), len(run.said)
    node.slo = changed(good, where)
    run.rounds_of(1.0, 1.0, 5.0, 61.0)
    assert run.said[logged:] == []
    assert node.values() == values or "mode" in line


def changed(good: dict[str, Any], where: str, wrong: object = None) -> dict[str, Any]:
    """The NodeSLO with one thing wrong, or without it."""
    slo = deepcopy(good)
    *above, name = where.split(".")
    at = slo
    for part in above:
        at = at[part]
    at.pop(name, None)
    if wrong is not None:
        at[name] = wrong
    return slo
