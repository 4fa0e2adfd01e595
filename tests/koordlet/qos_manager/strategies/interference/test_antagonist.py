"""The pod that is to blame: the one whose use fits the victim's deviations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.strategies.interference.antagonist import (
    Antagonist,
    SuspectPods,
    antagonist,
    correlations,
)
from koordlet.qos_manager.strategies.interference.suspicion import CPU, MEMORY, ContendedResource

SUFFERING = [0.0, 1.0, -1.0, 0.5, 12.0, 15.0, 12.0]
CALM = 4


class Suspect(NamedTuple):
    name: str
    best_effort: bool
    use: list[float]


def suspect(name: str, calm: float, then: float, best_effort: bool = True) -> Suspect:
    return Suspect(name, best_effort, [calm] * CALM + [then] * 3)


def blame(
    *suspects: Suspect, deviations: list[float] = SUFFERING, resource: ContendedResource = CPU
) -> Antagonist | None:
    found = SuspectPods(
        [one.name for one in suspects],
        np.array([one.best_effort for one in suspects], np.bool_),
        np.array([one.use for one in suspects], np.float64).reshape(-1, len(deviations)).T,
    )
    return antagonist("victim", deviations, found, resource, limit=3.0, least=0.67)


def correlation(deviations: list[float], use: list[float], limit: float) -> float:
    [found] = correlations(deviations, np.array([use]).T, limit)
    return float(found)


STEADY, NEW, GONE = suspect("steady", 4, 4), suspect("new", 0, 4), suspect("gone", 4, 0)


@pytest.mark.parametrize(
    ("suspects", "blamed"),
    [
        ((STEADY, NEW, GONE), "new"),
        ((STEADY, GONE), None),
        ((suspect("victim", 0, 4),), None),
        # Best-effort pods are suspected first.
        ((suspect("ls", 0, 4, best_effort=False), suspect("be", 0.5, 3)), "be"),
        ((suspect("ls", 0, 4, best_effort=False), STEADY), "ls"),
        # A pod that hardly ran is not blamed.
        ((suspect("tiny", 0, 0.09),), None),
        ((suspect("small", 0, 0.11),), "small"),
        # Of two that fit alike the larger, and then the first by name.
        ((suspect("a", 0, 1), suspect("b", 0, 2)), "b"),
        ((suspect("b", 0, 1), suspect("a", 0, 1)), "a"),
        ((), None),
    ],
)
def test_the_pod_that_used_cpu_only_while_it_hurt_is_blamed(
    suspects: tuple[Suspect, ...], blamed: str | None
) -> None:
    found = blame(*suspects)
    assert (found.name if found else None) == blamed
    for all_alike in ([0.0, 1.0, -1.0, 0.5, 3.0, 3.0, 3.0], [9.0] * 7):
        assert blame(*suspects, deviations=all_alike) is None
    assert blame(STEADY, NEW) == Antagonist("new", CPU, 1.0, 4.0)


def test_of_memory_counts_what_a_pod_took_on_top_of_what_it_held() -> None:
    held, grew = suspect("held", 4e9, 4.05e9), suspect("grew", 4e9, 5e9)
    assert blame(held, grew) is None
    assert blame(held, grew, resource=MEMORY) == Antagonist("grew", MEMORY, 1.0, 1e9)


@pytest.mark.parametrize(
    ("deviations", "use", "expected"),
    [
        ([30.0, 0.0], [4.0, 0.0], 1.0),
        ([30.0, 0.0], [0.0, 4.0], -1.0),
        ([30.0, 0.0, 0.0, 0.0], [2.0, 2.0, 2.0, 2.0], 0.0),
        ([30.0, 0.0, 0.0, 0.0], [5.0, 1.0, 1.0, 1.0], 2 / 3),
        ([6.0, 30.0, -5.0, 0.0], [0.0, 7.0, 1.0, 1.0], 0.636),
        ([30.0, 1.5, -5.0], [5.0, 4.0, 1.0], 3 / 7),
        ([30.0, 0.0], [0.0, 0.0], 0.0),
        ([30.0, 30.0], [4.0, 1.0], 0.0),
        ([0.0, 3.0], [4.0, 1.0], -0.0),
    ],
)
def test_the_correlation(deviations: list[float], use: list[float], expected: float) -> None:
    assert correlation(deviations, use, 3.0) == pytest.approx(expected, abs=0.001)


points = st.lists(st.tuples(st.floats(-100, 1e4), st.floats(0, 64)), min_size=1, max_size=20)


@given(points, st.floats(0.5, 100))
def test_it_is_within_one_and_knows_no_unit(pairs: list[tuple[float, float]], scale: float) -> None:
    deviations, use = [one for one, _ in pairs], [cores for _, cores in pairs]
    found = correlation(deviations, use, 3.0)
    assert -1 - 1e-9 <= found <= 1 + 1e-9
    assert correlation(deviations, [one * scale for one in use], 3.0) == pytest.approx(
        found, abs=1e-6
    )
