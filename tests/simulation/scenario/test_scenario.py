from __future__ import annotations

import pytest
from koord_model.node_slo import NodeSLO
from koord_simulation.scenario.scenario import Scenario
from koordlet.qos_manager.core.strategy import StrategyMode

from tests.simulation.stories import web


def test_the_newest_slo_holds_with_modes_in_it() -> None:
    first, second = NodeSLO(total_network_bandwidth=1), NodeSLO(total_network_bandwidth=2)
    scenario = Scenario(slo=first, slo_changes={60: second}, strategies={"x": StrategyMode.SHADOW})
    assert scenario.slo_at(59).total_network_bandwidth == 1
    assert scenario.slo_at(60).total_network_bandwidth == 2
    assert scenario.slo_at(60).strategies["x"] == {"mode": "shadow"}


def test_what_the_slo_says_of_a_strategy_counts_more() -> None:
    slo = NodeSLO(strategies={"x": {"mode": "off", "level": 3}, "y": {"level": 1}})
    found = Scenario(slo=slo, strategies={"x": StrategyMode.ON}).slo_at(0).strategies
    assert found == {"x": {"mode": "off", "level": 3}, "y": {"level": 1}}


def test_the_same_story_with_other_strategies() -> None:
    assert Scenario(strategies={"x": StrategyMode.ON}).only("y").strategies == {
        "y": StrategyMode.ON
    }
    assert Scenario(strategies={"x": StrategyMode.ON}).only().strategies == {}


def test_pods_have_names_of_their_own_and_a_run_takes_time() -> None:
    with pytest.raises(ValueError, match="two pods are called default/web"):
        Scenario(pods=(web(), web()))
    assert Scenario(pods=(web(), web(namespace="other")))
    with pytest.raises(ValueError, match="1 at least"):
        Scenario(seconds=0)
