import pytest
from koordlet.telling import Told

from koordlet import telling


def test_a_thing_is_said_once() -> None:
    words = Told()
    assert words.first_time("pod", "defect")
    assert not words.first_time("pod", "defect")
    assert words.first_time("pod", "other")


def test_memory_is_bounded_and_keeps_what_was_said_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "_MOST", 2)
    words = Told()
    for word in "abac":
        words.first_time(word)
    assert not words.first_time("a")
    assert words.first_time("b")
