"""A story to be run: machine, pods, what the cluster asks for, what goes wrong. No IO."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from koord_model.node_slo import NodeSLO
from koordlet.qos_manager.core.strategy import StrategyMode
from koordlet.qos_manager.eviction.policy.account import EvictionLimits

from koord_simulation.node_model.faults import Fault
from koord_simulation.node_model.machine import SimulatedMachine
from koord_simulation.node_model.workload import Workload


@dataclass(frozen=True)
class Scenario:
    """A story.

    ``strategies`` are those that run, and what is done with their plans; those not named do not.
    ``slo_changes`` are NodeSLOs by the second from which they hold. ``warm_up`` seconds
    at the beginning do not count in the report. Pods that are evicted come back after
    ``comes_back`` seconds. ``limits`` are of evictions. Equal ``seed``, equal run.
    """

    name: str = ""
    machine: SimulatedMachine = field(default_factory=SimulatedMachine)
    pods: tuple[Workload, ...] = ()
    slo: NodeSLO = field(default_factory=NodeSLO)
    strategies: Mapping[str, StrategyMode] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    seconds: int = 600
    seed: int = 0
    slo_changes: Mapping[float, NodeSLO] = field(default_factory=dict)
    warm_up: int = 0
    comes_back: float = math.inf
    limits: EvictionLimits = field(default_factory=EvictionLimits)

    def __post_init__(self) -> None:
        names = [pod.full_name for pod in self.pods]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two pods are called {twice[0]}")
        if self.seconds < 1:
            raise ValueError(f"a run of {self.seconds} s; expected 1 at least")

    def slo_at(self, second: float) -> NodeSLO:
        """Return the cluster's settings at that time, with modes of the strategies."""
        since = [start for start in self.slo_changes if start <= second]
        return self.with_modes(self.slo_changes[max(since)] if since else self.slo)

    def with_modes(self, slo: NodeSLO) -> NodeSLO:
        """The NodeSLO with this scenario's modes, unless it sets others itself."""
        strategies = {
            name: {"mode": mode.value, **slo.strategies.get(name, {})}
            for name, mode in self.strategies.items()
        }
        return replace(slo, strategies={**slo.strategies, **strategies})

    def only(self, *names: str) -> Scenario:
        """The same story with these strategies on, and no other."""
        return replace(self, strategies=dict.fromkeys(names, StrategyMode.ON))
