import pytest
from koord_service import log_deduplicator
from koord_service.log_deduplicator import LogDeduplicator


def test_a_line_is_new_once_until_all_is_well() -> None:
    lines = LogDeduplicator()
    assert lines.is_new("pod", "defect")
    assert not lines.is_new("pod", "defect")
    assert lines.is_new("pod", "other")
    lines.clear()
    assert lines.is_new("pod", "defect")


def test_after_a_while_a_line_stands_for_all_since_the_last() -> None:
    lines = LogDeduplicator(10.0)
    assert [lines.count("a", now) for now in (0.0, 1.0, 9.9, 10.0, 19.9, 40.0, 50.0)] == [
        *(1, 0, 0, 3, 0, 2, 1),
    ]


def test_memory_is_bounded_and_keeps_the_latest_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_deduplicator, "_CAPACITY", 2)
    lines = LogDeduplicator()
    for word in "abac":
        lines.is_new(word)
    assert not lines.is_new("a")
    assert lines.is_new("b")
