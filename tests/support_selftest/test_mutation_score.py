"""Mutants differ in one place that means something, and are tried on files that are there."""

from __future__ import annotations

import pytest

from tools.mutation_score import ROOT, TARGETS, mutants


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("a < b", "a <= b"),
        ("a + b", "a - b"),
        ("a and b", "a or b"),
        ("not a", "not not a"),
        ("f(1)", "2"),
        ("f(True)", "False"),
    ],
)
def test_one_place_changes(source: str, changed: str) -> None:
    assert [one.rpartition("  →  ")[2] for one, _ in mutants(source)] == [changed]


@pytest.mark.parametrize("source", ['"""Text."""', "a: int | None", "def f(a: 1) -> 2: pass"])
def test_what_only_people_and_types_read_stays(source: str) -> None:
    assert list(mutants(source)) == []


def test_modules_and_their_tests_are_there() -> None:
    files = [one for target, tests in TARGETS.items() for one in (target, *tests)]
    assert [one for one in files if not (ROOT / one).is_file()] == []
