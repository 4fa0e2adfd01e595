"""What golden scenarios have in common: real strategies, run on a story, and what they said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from koord_host.knobs.forms import Value
from koord_model.node_slo import NodeSLO
from koord_model.used_threshold import UsedThreshold
from koord_prediction.histogram import Floats
from koord_simulation.files import strategies
from koord_simulation.run.record import DecisionLine, Run
from koord_simulation.run.simulation import Simulation, simulate
from koord_simulation.scenario.scenario import Scenario
from koordlet.qos_manager.core.strategy import StrategyView

BE = "kubepods/besteffort"
AGREED = {"koordinator.sh/eviction-enabled": "true"}


def slo(**threshold: Any) -> NodeSLO:
    """One that switches on what is about best-effort pods."""
    return NodeSLO(threshold=UsedThreshold(**{"enable": True, **threshold}))


def run(scenario: Scenario, *names: str) -> Run:
    """The story with these strategies on, as they are shipped."""
    return simulate(scenario.only(*names), strategies(names))


def simulation(scenario: Scenario, *names: str) -> Simulation:
    """The same, to be stepped through."""
    return Simulation(scenario.only(*names), strategies(names))


def steps(story: Simulation, seconds: int) -> Iterator[StrategyView]:
    """So many seconds of it."""
    return (story.step() for _ in range(seconds))


def all_steps(story: Simulation, seconds: int) -> None:
    """So many seconds of it, at which nobody looks."""
    for _ in steps(story, seconds):
        pass


def said(run: Run, about: str = "") -> list[DecisionLine]:
    """What was decided, where these words are in it."""
    return [one for one in run.said if about in one.outcome]


def changes(curve: Floats) -> list[int]:
    """The seconds in which a curve has another value than before."""
    return [int(one) + 1 for one in np.flatnonzero(np.diff(curve))]


def unharmed(*runs: Run) -> None:
    """No strategy failed, and no write of theirs was one that a kernel refuses."""
    for one in runs:
        assert one.problems == []
        assert one.refused == []


def knobs(story: Simulation, names: Iterable[str]) -> dict[tuple[str, str], Value | None]:
    """What these knobs say now, in every group there is."""
    groups = ("", *story.cgroups.below("", "cpu"))
    return {(group, name): story.cgroups.now(group, name) for group in groups for name in names}
