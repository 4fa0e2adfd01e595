"""Arguments of LowNodeLoad: defaults, inheritance, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from koord_descheduler.plugins.low_node_load.args import LowNodeLoadArgs


def args(**given: Any) -> LowNodeLoadArgs:
    return msgspec.convert(given, LowNodeLoadArgs)


def test_pools_inherit_what_they_do_not_say() -> None:
    own, pool = args(
        lowThresholds={"cpu": 45},
        highThresholds={"cpu": 75},
        nodeSelector={"matchLabels": {"a": "b"}},
        useDeviationThresholds=True,
        resourceWeights={"cpu": 3},
        anomalyCondition={"timeout": "2m", "consecutiveNormalities": 9},
        nodePools=[
            {
                "name": "x",
                "highThresholds": {"cpu": 60},
                "anomalyCondition": {"consecutiveAbnormalities": 7},
            }
        ],
    ).pools()
    assert (own.name, own.low, own.anomaly) == (
        "__default_node_pool__", {"cpu": 45}, (120.0, 5, 9),
    )  # fmt: skip
    assert (own.uses_deviation, own.selector.matches({})) == (True, False)
    assert own.weights == {"cpu": 3, "memory": 1}
    assert (pool.name, pool.low, pool.high) == ("x", {"cpu": 45}, {"cpu": 60})
    assert (pool.uses_deviation, pool.selector.matches({})) == (False, True)
    assert pool.anomaly == (60.0, 7, 9)
    assert pool.weights == own.weights


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"lowThresholds": {"cpu": -1}, "highThresholds": {"cpu": 5}},
         "args.lowThresholds.cpu is -1.0; expected 0 or more"),
        ({"lowThresholds": {"cpu": 80}, "highThresholds": {"cpu": 75}},
         "args.lowThresholds.cpu is 80.0; expected highThresholds.cpu (75) or less"),
        ({"highThresholds": {"cpu": 75}},
         "args.lowThresholds.cpu is missing; expected a threshold, as highThresholds has one"),
        ({"lowThresholds": {"cpu": 75}},
         "args.highThresholds.cpu is missing; expected a threshold, as lowThresholds has one"),
        ({"nodeSelector": {"a": "b"}},
         "args.nodeSelector.a is unknown; expected matchLabels or matchExpressions"),
        ({"detectorCacheTimeout": "x"},
         'args.detectorCacheTimeout is "x"; expected a duration like 5m or 1h30m'),
        ({"evictableNamespaces": {"include": ["a"], "exclude": ["b"]}},
         'args.evictableNamespaces is "include and exclude"; expected one of them'),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], problem: str) -> None:
    assert list(args(**given).problems("args")) == [problem]


def test_a_threshold_of_production_is_not_above_that_of_the_node() -> None:
    both = {
        "low": {"cpu": 30},
        "high": {"cpu": 60},
        "prodLow": {"cpu": 30},
        "prodHigh": {"cpu": 70},
    }
    given = {f"{name}Thresholds": thresholds for name, thresholds in both.items()}
    found = list(args(nodePools=[given]).problems("args"))
    assert found == [
        "args.nodePools[0].prodHighThresholds.cpu is 70.0; expected highThresholds.cpu (60) or less"
    ]
