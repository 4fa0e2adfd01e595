import pytest
from koord_service import repetitions
from koord_service.repetitions import Repetitions


def test_a_line_stands_for_all_since_the_last() -> None:
    lines = Repetitions(10.0)
    counts = [(0.0, 1), (1.0, 0), (9.9, 0), (10.0, 3), (19.9, 0), (40.0, 2), (50.0, 1)]
    assert [(now, lines.count("a", now)) for now, _ in counts] == counts


def test_memory_is_bounded_and_keeps_the_latest_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repetitions, "_CAPACITY", 2)
    lines = Repetitions()
    assert [lines.count(word) for word in "abac"] == [1, 1, 0, 1]
    assert [lines.count(word) for word in "ab"] == [0, 1]
