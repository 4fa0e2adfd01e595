import pytest
from koord_hooks.runner import Outcome
from koord_host.outcomes import Outcome as Wrote
from koord_host.outcomes import Result, Round
from koord_host.wishes import Target
from koord_model.patch import NodePatch, Patch
from koordlet.telling import Told, tell_problems, tell_round

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


@pytest.mark.parametrize(("values", "lines"), [(0, 0), (1, 1), (3, 3), (4, 1), (300, 1)])
def test_very_many_values_changed_by_somebody_else_are_one_line(
    values: int, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    changed = tuple(
        Result(
            Target(f"kubepods/pod{number}", ("memory.min", "memory.low")[number % 2]),
            Wrote.WRITTEN,
            0,
            5,
            reason="changed by somebody else; ours is written again",
        )
        for number in range(values)
    )
    refused = Result(Target("kubepods", "cpu.shares"), Wrote.REFUSED, reason="no")
    tell_round(Told(), Round((*changed, refused)), ())
    told = [one for one in caplog.records if one.message == "changed by somebody else"]
    assert len(told) == lines
    if lines < values:
        assert told[0].fields == {  # type: ignore[attr-defined]
            "values": values,
            "knobs": "memory.low, memory.min",
            "example": "memory.min of kubepods/pod0",
            "reason": "changed by somebody else; ours is written again",
        }
    assert caplog.messages.count("not written") == 1
