"""docs/strategies says of each strategy what its module says, and its examples work."""

from __future__ import annotations

import sys
from dataclasses import asdict
from types import ModuleType
from typing import Any

import pytest
from koord_host.planning.validity import problem
from koord_model.node_slo import NodeSLO
from koordlet.agent.config import KoordletSettings
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.qos_manager.core.settings import StrategySettings, find_unknown, parse_settings
from koordlet.qos_manager.core.strategy import (
    Plan,
    Strategy,
    StrategyMode,
    StrategyView,
    WindowStats,
)
from koordlet.qos_manager.strategy_table import available, load, select_enabled
from koordlet.states_informer.node_view_builder import parse_rules

from tests.docs.words import block, marked, pages, rows
from tests.support.views import FakeHistory, stats, view
from tools import strategy_tables

PAGE = pages("strategies")
ALL, _ = select_enabled(asdict(KoordletSettings()), dict.fromkeys(DEFAULTS, True))
TABLE = rows(marked(PAGE, "strategies"))
ROWS = {row[0].strip("`"): row for row in TABLE}


def test_the_table_has_every_strategy_once() -> None:
    assert sorted(row[0] for row in TABLE) == sorted(f"`{name}`" for name in available())


@pytest.mark.parametrize("name", available())
def test_gates_and_intervals(name: str) -> None:
    module = load(name)
    every = module.INTERVAL
    interval = f"{every} s"
    if isinstance(every, str):
        flag = f"--{every.replace('_', '-')}"
        interval = f"`{flag}` {getattr(KoordletSettings(), every):g} s"
    on = "yes" if DEFAULTS[module.GATE] else "no"
    assert ROWS[name][1:4] == [f"`{module.GATE}`", on, interval.replace(".0 s", " s")]


def test_settings_are_those_of_the_strategies() -> None:
    assert strategy_tables.with_tables(PAGE) == PAGE, "run: python tools/strategy_tables.py"
    assert [name for name in available() if f"<!-- settings: {name} -->\n" not in PAGE] == []


def test_every_strategy_has_a_section() -> None:
    headings = [line.strip("# ") for line in PAGE.splitlines() if line.startswith("##")]
    assert set(available()) <= {one for heading in headings for one in heading.split(", ")}


# ---- modes and settings by a NodeSLO


def _asked(slo: NodeSLO) -> dict[str, StrategySettings]:
    return {one.name: parse_settings(one, slo) for one in ALL}


def test_the_nodeslo_is_one() -> None:
    rules = parse_rules(block(PAGE, "nodeslo"))
    assert rules.problems == ()
    found = _asked(rules.slo)
    assert find_unknown(found, rules.slo) == ()
    assert not [line for one in found.values() for line in one.ignored]
    modes = {name: one.mode for name, one in found.items() if one.mode is not StrategyMode.ON}
    assert modes == {"cpu_suppress": StrategyMode.SHADOW, "cpu_burst": StrategyMode.OFF}
    assert found["cpu_suppress"].settings.threshold_percent == 60
    assert len(found["threshold_evict"].settings.thresholds) == 1


# ---- the strategy of the page


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as who follows the page would save it."""
    module = ModuleType("calm_swap", None)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(block(PAGE, "example"), "calm_swap.py", "exec"), module.__dict__)
    return module


def _strategy(module: Any) -> Strategy:
    return Strategy(
        "calm_swap",
        module.GATE,
        module.INTERVAL,
        module.Settings,
        module.settings,
        module.plan,
    )


def _view(pressure: float | None) -> StrategyView:
    series: dict[tuple[str, ...], WindowStats] = {}
    if pressure is not None:
        series["node_psi", "mem", "avg60", "some"] = stats(pressure)
    return view(history=FakeHistory(series))


def test_the_example_swaps_less_under_pressure_and_holds_what_it_had(example: ModuleType) -> None:
    strategy = _strategy(example)
    slo = NodeSLO(strategies={"calm_swap": {"swappiness": 5}})
    settings = parse_settings(strategy, slo).settings

    def plan(pressure: float | None, before: Plan | None = None) -> Plan:
        return strategy.plan(_view(pressure), settings, before.memory if before else None)

    easy, hard = plan(3.0), plan(30.0)
    assert easy.desired == ()
    [wish] = hard.desired
    assert (wish.target.place, wish.value, problem(wish)) == ("vm.swappiness", "5", "")
    assert plan(None).desired == ()
    assert plan(None, hard).desired == hard.desired
    assert plan(3.0, plan(None, hard)).desired == ()
    assert all(str(one) for found in (easy, hard, plan(None)) for one in found.decisions)


def test_a_bad_setting_of_the_example_is_reported(example: ModuleType) -> None:
    slo = NodeSLO(strategies={"calm_swap": {"swappiness": 500}})
    found = parse_settings(_strategy(example), slo)
    assert (found.settings.swappiness, len(found.ignored)) == (10, 1)
