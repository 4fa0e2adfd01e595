from __future__ import annotations

from typing import Any

import pytest
from koordlet.metrics_reporter.documents.metric_policy import (
    MemoryPolicy,
    MetricCollectPolicy,
    policy,
)


def read(**collect: Any) -> tuple[MetricCollectPolicy, tuple[str, ...]]:
    return policy({"spec": {"metricCollectPolicy": collect}})


@pytest.mark.parametrize("document", [{}, {"spec": None}, {"spec": {"metricCollectPolicy": {}}}])
def test_defaults(document: dict[str, object]) -> None:
    assert policy(document) == (MetricCollectPolicy(300, 60, (300.0, 600.0, 1800.0)), ())


def test_all_of_it() -> None:
    assert read(
        aggregateDurationSeconds=60,
        reportIntervalSeconds=30,
        nodeAggregatePolicy={"durations": ["1m30s", "1h0m0s"]},
        nodeMemoryCollectPolicy="usageWithHotPageCache",
    ) == (MetricCollectPolicy(60, 30, (90.0, 3600.0), MemoryPolicy.WITH_HOT_PAGE_CACHE), ())


@pytest.mark.parametrize(
    ("field", "value", "expected", "line"),
    [
        (
            "aggregateDurationSeconds",
            10,
            {"aggregate": 60},
            "is 10; expected 60 to 43200 (60 taken)",
        ),
        ("reportIntervalSeconds", -1, {"interval": 30}, "is -1; expected 30 to 43200 (30 taken)"),
        ("reportIntervalSeconds", "60", {}, 'is "60"; expected 30 to 43200 (default 60 kept)'),
        (
            *("nodeAggregatePolicy", {"durations": ["5m", "soon", 7, "0s", "13h"]}),
            *(
                {"durations": (300.0,)},
                '.durations[1] is "soon"; expected a duration from 1s to 12h',
            ),
        ),
        (
            *("nodeAggregatePolicy", {"durations": "5m"}, {}),
            '.durations is "5m"; expected a list of durations (defaults kept)',
        ),
        ("nodeAggregatePolicy", {"durations": []}, {}, ""),
        ("nodeMemoryCollectPolicy", "all", {}, 'is "all"; expected usageWithoutPageCache or'),
    ],
)
def test_what_cannot_be_used_costs_only_itself(
    field: str, value: Any, expected: dict[str, Any], line: str
) -> None:
    found, problems = read(**{field: value})
    assert found == MetricCollectPolicy(**expected)
    start = f"NodeMetric spec.metricCollectPolicy.{field}"
    assert all(one.startswith(start) for one in problems)
    assert bool(problems) == bool(line)
    assert line in "".join(problems[:1])
