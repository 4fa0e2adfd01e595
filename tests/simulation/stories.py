"""Scenarios and strategies for these tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from koord_model.qos import QoSClass
from koord_simulation.node_model.curves import Constant
from koord_simulation.node_model.machine import GIB, SimulatedMachine
from koord_simulation.node_model.workload import Workload
from koord_simulation.scenario.scenario import Scenario
from koordlet.qos_manager.core.strategy import Plan, Strategy, StrategyView

BATCH = {"kubernetes.io/batch-cpu": 2000, "kubernetes.io/batch-memory": 2 * GIB}


def web(name: str = "web", cpu: float = 2.0, **more: Any) -> Workload:
    given = {"requests": {"cpu": 2000, "memory": 2 * GIB}, "memory": Constant(GIB), **more}
    return Workload(name, QoSClass.LS, Constant(cpu), **given)


def job(name: str = "job", cpu: float = 4.0, **more: Any) -> Workload:
    given = {"requests": BATCH, "memory": Constant(GIB), **more}
    return Workload(name, QoSClass.BE, Constant(cpu), **given)


def story(*pods: Workload, seconds: int = 30, **more: Any) -> Scenario:
    given = {"machine": SimulatedMachine(cpus=8, memory=16 * GIB), **more}
    return Scenario("story", pods=pods, seconds=seconds, **given)


@dataclass(frozen=True)
class Settings:
    """Of the strategies below."""

    level: int = 0
    """Any number."""


class Recorder:
    """A strategy that keeps what it was shown, and answers with one plan after the other."""

    def __init__(self, *plans: Plan, name: str = "recorder") -> None:
        self.views: list[StrategyView] = []
        self.memories: list[object] = []
        self.cpus_known: list[bool] = []
        self._plans = plans or (Plan(),)
        self.strategy = Strategy(
            *(name, "Gate", 1.0, Settings),
            lambda slo: Settings(slo.threshold.cpu_suppress),
            self.plan,
        )

    def plan(self, view: StrategyView, settings: Settings, memory: object) -> Plan:
        self.views.append(view)
        self.cpus_known.append(bool(view.cpus))
        self.memories.append(memory)
        return self._plans[min(len(self.views), len(self._plans)) - 1]


def on(scenario: Scenario, *names: str) -> Scenario:
    return scenario.only(*names or ("recorder",))
