from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.reports.metric_policy import MemoryPolicy, Policy, duration, go_duration, policy


def read(**collect: Any) -> tuple[Policy, tuple[str, ...]]:
    return policy({"spec": {"metricCollectPolicy": collect}})


@pytest.mark.parametrize("document", [{}, {"spec": None}, {"spec": {"metricCollectPolicy": {}}}])
def test_defaults(document: dict[str, object]) -> None:
    assert policy(document) == (Policy(300, 60, (300.0, 600.0, 1800.0)), ())


def test_all_of_it() -> None:
    assert read(
        aggregateDurationSeconds=60,
        reportIntervalSeconds=30,
        nodeAggregatePolicy={"durations": ["1m30s", "1h0m0s"]},
        nodeMemoryCollectPolicy="usageWithHotPageCache",
    ) == (Policy(60, 30, (90.0, 3600.0), MemoryPolicy.WITH_HOT_PAGE_CACHE), ())


@pytest.mark.parametrize(
    ("collect", "expected", "line"),
    [
        (
            {"aggregateDurationSeconds": 10},
            Policy(aggregate=60),
            "aggregateDurationSeconds is 10; expected 60 to 43200 (60 taken)",
        ),
        (
            {"reportIntervalSeconds": -1},
            Policy(interval=30),
            "reportIntervalSeconds is -1; expected 30 to 43200 (30 taken)",
        ),
        (
            {"reportIntervalSeconds": "60"},
            Policy(),
            'reportIntervalSeconds is "60"; expected 30 to 43200 (default 60 kept)',
        ),
        (
            {"nodeAggregatePolicy": {"durations": ["5m", "soon", 7, "0s", "13h"]}},
            Policy(durations=(300.0,)),
            'durations[1] is "soon"; expected a duration from 1s to 12h like "5m" (left out)',
        ),
        (
            {"nodeAggregatePolicy": {"durations": "5m"}},
            Policy(),
            'durations is "5m"; expected a list of durations (defaults kept)',
        ),
        (
            {"nodeMemoryCollectPolicy": "all"},
            Policy(),
            'nodeMemoryCollectPolicy is "all"; expected usageWithoutPageCache or',
        ),
    ],
)
def test_what_cannot_be_used_costs_only_itself(
    collect: dict[str, Any], expected: Policy, line: str
) -> None:
    found, problems = read(**collect)
    assert found == expected
    assert line in problems[0]
    assert all(one.startswith("NodeMetric spec.metricCollectPolicy.") for one in problems)


def test_no_aggregated_usages_are_wanted_by_an_empty_list() -> None:
    assert read(nodeAggregatePolicy={"durations": []}) == (Policy(durations=()), ())


@pytest.mark.parametrize(
    ("word", "seconds"),
    [
        ("5m0s", 300),
        ("5m", 300),
        ("1h2m3.5s", 3723.5),
        ("1500ms", 1.5),
        ("90s", 90),
        ("12h", 43200),
    ],
)
def test_durations_as_go_reads_them(word: str, seconds: float) -> None:
    assert duration(word) == pytest.approx(seconds)


@pytest.mark.parametrize("word", ["", "5", "m", "-5m", "5m ", "1d", "0.5s", "1s" * 9, 5, None])
def test_what_is_no_duration(word: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the line is Fields'
        duration(word)


@given(st.integers(1, 43200))
def test_durations_survive_being_written(seconds: int) -> None:
    assert duration(go_duration(seconds)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("seconds", "word"),
    [(30, "30s"), (300, "5m0s"), (5400, "1h30m0s"), (3600, "1h0m0s"), (1.5, "1.5s")],
)
def test_durations_as_go_writes_them(seconds: float, word: str) -> None:
    assert go_duration(seconds) == word
