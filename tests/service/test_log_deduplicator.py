import pytest
from koord_service import log_deduplicator
from koord_service.log_deduplicator import LogDeduplicator


def test_a_line_is_new_once() -> None:
    lines = LogDeduplicator()
    assert lines.is_new("pod", "defect")
    assert not lines.is_new("pod", "defect")
    assert lines.is_new("pod", "other")


def test_memory_is_bounded_and_keeps_the_latest_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_deduplicator, "_CAPACITY", 2)
    lines = LogDeduplicator()
    for word in "abac":
        lines.is_new(word)
    assert not lines.is_new("a")
    assert lines.is_new("b")
