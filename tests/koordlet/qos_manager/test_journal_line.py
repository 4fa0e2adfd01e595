"""Decisions as lines of the journal, and back."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.resource_executor.journal import ChangeEntry, DecisionEntry, Journal
from koordlet.qos_manager import journal_line
from koordlet.qos_manager.core.decision_log import DecisionKey, DecisionRecord, of_pod
from koordlet.qos_manager.core.strategy import Decision, StrategyMode, Term

from tests.support.journals import read_events

GIVEN = (Term("capacity", 16, "cores"), Term("used", float("inf"), "%"), Term("x", None))
ENTRY = DecisionRecord(
    1.5,
    "cpu_suppress",
    StrategyMode.SHADOW,
    Decision("o", "f", GIVEN, pod="n/p", group="g", aspect="a"),
)


def test_a_line_has_all_of_it() -> None:
    assert journal_line.line(ENTRY) == DecisionEntry(
        "1970-01-01T00:00:01.500Z",
        "cpu_suppress",
        "shadow",
        "o",
        "f",
        (("capacity", 16, "cores"), ("used", "inf", "%"), ("x", None, "")),
        "n/p",
        "g",
        "a",
    )


_NUMBERS = st.none() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text()
_GIVEN = st.builds(Term, st.text(max_size=9), _NUMBERS, st.sampled_from(["", "cores"]))
_DECISIONS = st.builds(
    Decision, st.text(), st.text(), st.lists(_GIVEN, max_size=5).map(tuple), st.text(), st.text()
)


_MODES = st.sampled_from(list(StrategyMode))


@given(st.builds(DecisionRecord, st.floats(0, 4e9), st.text(), _MODES, _DECISIONS))
def test_what_the_journal_has_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, entry: DecisionRecord
) -> None:
    path = tmp_path_factory.mktemp("journal") / "j"
    book = Journal(str(path), pytest.fail)
    book.add(journal_line.line(entry))
    book.close()
    [line] = read_events(str(path))
    assert isinstance(line, DecisionEntry)
    back = journal_line.entry(line)
    assert back is not None
    assert journal_line.identity(back) == journal_line.identity(entry)
    assert abs(back.at - entry.at) < 0.002
    text = [(name, str(value), unit) for name, value, unit in entry.decision.given]
    assert [(name, str(value), unit) for name, value, unit in back.decision.given] == text
    without = dataclasses.replace(entry.decision, given=())
    assert dataclasses.replace(back.decision, given=()) == without


def test_what_is_not_a_decision_of_ours_or_not_wanted() -> None:
    second = "1970-01-01T00:00:01.500Z"
    for time in ("some day", "9999-12-31T23:59:59-23:59"):
        assert journal_line.entry(DecisionEntry(time, "s", "on", "o")) is None
    assert journal_line.entry(DecisionEntry(second, "s", "a mode of another release", "o")) is None
    wanted, line = journal_line.decisions(of_pod("p")), journal_line.line(ENTRY)
    assert wanted(line)
    assert not wanted(DecisionEntry("t", "s", "on", "o", pod="n/q"))
    assert not wanted(ChangeEntry("t", "hooks", "g", "n/p", "cpu.idle", 0, 1, ""))
    assert journal_line.key(line) == DecisionKey("cpu_suppress", "a", "n/p", "g")
