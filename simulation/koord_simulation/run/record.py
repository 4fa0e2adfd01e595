"""Recording of a run, second by second. No IO."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np
from koord_prediction.histogram import Floats
from koordlet.qos_manager.core.strategy import StrategyMode

from koord_simulation.node_model.cgroups import RefusedWrite
from koord_simulation.scenario.scenario import Scenario


class EvictionLine(NamedTuple):
    """A pod that was evicted; ``at`` is the second of the run."""

    at: float
    pod: str
    strategy: str
    rule: str
    why: str


class OOMKill(NamedTuple):
    """A container that was killed; ``where`` is the group whose limit it was, "" for the node."""

    at: float
    pod: str
    where: str


class DecisionLine(NamedTuple):
    """A decision that is new, or other than before."""

    at: float
    strategy: str
    mode: StrategyMode
    about: str
    outcome: str


@dataclass(eq=False)
class Run:
    """A run: numbers by the second, and what happened.

    Of the node, in cores: ``cpu``, ``be_cpu`` (used by best-effort pods), ``be_demand`` (what they
    would use, evicted ones too), ``be_allowed`` (what they may use); ``memory`` in bytes with
    page cache; ``pressure`` of CPU in percent. By pod, a column each in the order of the
    scenario: ``p50``, ``p99`` (milliseconds), ``throttled`` (0 to 1), ``used`` (cores),
    ``waiting`` (tasks that wait for a CPU), ``held`` (bytes with page cache); NaN while it does
    not run, or has none.
    """

    scenario: Scenario
    cpu: Floats
    be_cpu: Floats
    be_demand: Floats
    be_allowed: Floats
    memory: Floats
    pressure: Floats
    p50: Floats
    p99: Floats
    throttled: Floats
    used: Floats
    waiting: Floats
    held: Floats
    evictions: list[EvictionLine] = field(default_factory=list)
    kills: list[OOMKill] = field(default_factory=list)
    said: list[DecisionLine] = field(default_factory=list)
    refused: list[tuple[float, RefusedWrite]] = field(default_factory=list)
    problems: list[tuple[float, str]] = field(default_factory=list)

    def column(self, pod: str) -> int:
        """The place of a pod, by "namespace/name" or its name.

        Raises:
            KeyError: no such pod.
        """
        for number, one in enumerate(self.scenario.pods):
            if pod in (one.full_name, one.name):
                return number
        raise KeyError(pod)

    def p99_of(self, pod: str) -> Floats:
        """The 99th percentile of a pod's latency in each second, milliseconds."""
        return np.asarray(self.p99[:, self.column(pod)], np.float64)

    def evicted(self) -> list[str]:
        """The pods that were evicted, in order."""
        return [eviction.pod for eviction in self.evictions]


def blank(scenario: Scenario) -> Run:
    """A run of which nothing is written yet."""
    seconds, pods = scenario.seconds, len(scenario.pods)
    node = [np.zeros(seconds) for _ in range(6)]
    of_pods = [np.full((seconds, pods), np.nan) for _ in range(6)]
    names = [field.name for field in fields(Run)[1:13]]
    return Run(scenario, **dict(zip(names, [*node, *of_pods], strict=True)))  # type: ignore[arg-type]
