import pytest
from koord_hooks.runner import Outcome
from koord_model.patch import NodePatch, Patch
from koordlet.telling import Told, tell_problems

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


def test_a_line_is_told_once_a_pod_and_once_at_all_if_it_names_its_pod(
    caplog: pytest.LogCaptureFixture,
) -> None:
    words = Told()
    named = Outcome(Patch(ignored=("pod shop/a: annotation x is y",)))
    tell_problems(words, {"pod": "shop/a"}, named)
    tell_problems(words, {"subject": "node"}, Outcome(NodePatch(ignored=named.patch.ignored)))
    assert len(caplog.records) == 1
    for pod in ("shop/a", "shop/b"):
        tell_problems(words, {"pod": pod}, Outcome(Patch(ignored=("annotation x is y",))))
    assert len(caplog.records) == 3
