"""Advice on best-effort pods' CPU."""

from __future__ import annotations

import math

import pytest
from koordlet.qos_manager.core.strategy import StrategySignal
from koordlet.qos_manager.suppression.be_advice import Advice, advice, least_advice

from tests.support.views import view


@pytest.mark.parametrize(
    ("signals", "least"),
    [
        ({}, None),
        ({"ours": [advice(9)], "theirs": [advice(7.5)]}, Advice(7.5, "theirs")),
        ({"ours": [advice(9)], "theirs": [advice(math.nan), advice(-math.inf)]}, Advice(9, "ours")),
        ({"other": [StrategySignal("be_cpu_cores", 3, "ns/web"), StrategySignal("x", 1)]}, None),
    ],
)
def test_the_least_of_all_strategies_counts(
    signals: dict[str, list[StrategySignal]], least: Advice | None
) -> None:
    assert least_advice(view(signals=signals)) == least
