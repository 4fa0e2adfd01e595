from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.fields import Fields
from koord_model.used_threshold import CPUEvictPolicy, SuppressPolicy, UsedThreshold, read

EVERYTHING = {
    "enable": True,
    "cpuSuppressThresholdPercent": 60,
    "cpuSuppressMinPercent": 5,
    "cpuSuppressPolicy": "cfsQuota",
    "memoryEvictThresholdPercent": 80,
    "memoryEvictLowerPercent": 75,
    "memoryAllocatableEvictThresholdPercent": 120,
    "memoryAllocatableEvictLowerPercent": 110,
    "cpuEvictBESatisfactionUpperPercent": 90,
    "cpuEvictBESatisfactionLowerPercent": 40,
    "cpuEvictBEUsageThresholdPercent": 85,
    "cpuEvictTimeWindowSeconds": 300,
    "cpuEvictThresholdPercent": 95,
    "cpuEvictLowerPercent": 88,
    "cpuAllocatableEvictThresholdPercent": 130,
    "cpuAllocatableEvictLowerPercent": 105,
    "cpuEvictPolicy": "evictByAllocatable",
    "evictEnabledPriorityThreshold": 5999,
    "allocatableEvictPriorityThreshold": 7999,
}


def taken(given: object) -> tuple[UsedThreshold, list[str]]:
    ignored: list[str] = []
    return read(Fields(given, "NodeSLO", ignored, "used"), UsedThreshold()), ignored


def test_everything_is_read() -> None:
    assert taken(EVERYTHING) == (
        UsedThreshold(
            enable=True,
            cpu_suppress=60,
            cpu_suppress_min=5,
            cpu_suppress_policy=SuppressPolicy.CFS_QUOTA,
            memory_evict=80,
            memory_evict_lower=75,
            memory_allocatable_evict=120,
            memory_allocatable_evict_lower=110,
            cpu_evict_policy=CPUEvictPolicy.ALLOCATABLE,
            cpu_evict_satisfaction_upper=90,
            cpu_evict_satisfaction_lower=40,
            cpu_evict_be_usage=85,
            cpu_evict_window_seconds=300,
            cpu_evict=95,
            cpu_evict_lower=88,
            cpu_allocatable_evict=130,
            cpu_allocatable_evict_lower=105,
            evict_priority=5999,
            allocatable_evict_priority=7999,
        ),
        [],
    )


def test_everything_there_is_was_in_that_document() -> None:
    found, _ = taken(EVERYTHING)
    usual = asdict(UsedThreshold())
    assert [name for name, value in asdict(found).items() if value == usual[name]] == []


def test_what_is_not_said_is_koordinators_default() -> None:
    found, ignored = taken({})
    assert (found, ignored) == (UsedThreshold(), [])
    assert (found.enable, found.cpu_suppress, found.memory_evict) == (False, 65, 70)
    assert found.cpu_evict_be_usage == 90


@pytest.mark.parametrize(
    ("name", "bad", "expected"),
    [
        ("cpuSuppressThresholdPercent", 101, "0 to 100 (default 65 kept)"),
        ("cpuSuppressThresholdPercent", "65", "0 to 100 (default 65 kept)"),
        ("cpuSuppressThresholdPercent", 65.5, "0 to 100 (default 65 kept)"),
        ("cpuSuppressMinPercent", -1, "0 to 100 (left unset)"),
        ("cpuEvictTimeWindowSeconds", 0, "1 to 86400 (left unset)"),
        ("memoryAllocatableEvictThresholdPercent", 10**9, "0 to 1000000 (left unset)"),
        ("allocatableEvictPriorityThreshold", 8000, "0 to 7999 (left unset)"),
        ("evictEnabledPriorityThreshold", 1 << 31, "-2147483648 to 2147483647 (left unset)"),
        ("enable", 1, "true or false (default false kept)"),
        ("cpuEvictPolicy", "random", "evictByRealLimit or evictByAllocatable (default"),
    ],
)
def test_a_bad_field_costs_only_itself(name: str, bad: Any, expected: str) -> None:
    found, [line] = taken({"cpuEvictBEUsageThresholdPercent": 50, name: bad})
    assert f"used.{name} is " in line
    assert f"; expected {expected}" in line
    assert found == UsedThreshold(cpu_evict_be_usage=50)


PAIRS = [
    ("memoryEvictLowerPercent", "memoryEvictThresholdPercent"),
    ("memoryAllocatableEvictLowerPercent", "memoryAllocatableEvictThresholdPercent"),
    ("cpuEvictBESatisfactionLowerPercent", "cpuEvictBESatisfactionUpperPercent"),
    ("cpuEvictLowerPercent", "cpuEvictThresholdPercent"),
    ("cpuAllocatableEvictLowerPercent", "cpuAllocatableEvictThresholdPercent"),
]


@pytest.mark.parametrize(("lower", "upper"), PAIRS)
@pytest.mark.parametrize("bottom", [60, 90])
def test_a_pair_that_contradicts_costs_only_that_pair(lower: str, upper: str, bottom: int) -> None:
    found, [line] = taken({**EVERYTHING, lower: bottom, upper: 60})
    assert f"used.{lower} is {bottom}; expected {lower} below {upper} (defaults unset and" in line
    kept, _ = taken({key: one for key, one in EVERYTHING.items() if key not in (lower, upper)})
    assert found == kept


def test_a_lower_bound_is_held_against_the_default_too() -> None:
    found, [line] = taken({"memoryEvictLowerPercent": 75})
    assert line.endswith("below memoryEvictThresholdPercent (defaults unset and 70 kept)")
    assert found == UsedThreshold()


def test_a_threshold_alone_or_a_bound_alone_contradicts_nothing() -> None:
    found, ignored = taken({"memoryEvictThresholdPercent": 60, "cpuEvictLowerPercent": 99})
    assert (found, ignored) == (replace(UsedThreshold(), memory_evict=60, cpu_evict_lower=99), [])


_VALUES = st.none() | st.booleans() | st.integers(-5, 130) | st.text(max_size=3)


@given(st.dictionaries(st.sampled_from(sorted(EVERYTHING)), _VALUES))
def test_whatever_is_given_no_pair_contradicts(given: dict[str, Any]) -> None:
    found, _ = taken(given)
    for lower, upper in (
        (found.memory_evict_lower, found.memory_evict),
        (found.memory_allocatable_evict_lower, found.memory_allocatable_evict),
        (found.cpu_evict_satisfaction_lower, found.cpu_evict_satisfaction_upper),
        (found.cpu_evict_lower, found.cpu_evict),
        (found.cpu_allocatable_evict_lower, found.cpu_allocatable_evict),
    ):
        assert lower is None or upper is None or lower < upper
