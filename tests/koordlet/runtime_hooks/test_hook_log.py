import pytest
from koord_hooks.runner import HookResult
from koord_host.planning.desired_values import Target
from koord_host.planning.outcomes import Outcome as Wrote
from koord_host.planning.outcomes import Result, Round
from koord_model.patch import NodePatch, Patch
from koord_service.log_deduplicator import LogDeduplicator
from koordlet.runtime_hooks.hook_log import log_problems, log_round


def test_a_line_is_reported_once_a_pod_and_once_at_all_if_it_names_its_pod(caplog):
    words = LogDeduplicator()
    named = HookResult(Patch(ignored=("pod shop/a: annotation x is y",)))
    log_problems(words, {"pod": "shop/a"}, named)
    log_problems(words, {"subject": "node"}, HookResult(NodePatch(ignored=named.patch.ignored)))
    assert len(caplog.records) == 1
    for pod in ("shop/a", "shop/b"):
        log_problems(words, {"pod": pod}, HookResult(Patch(ignored=("annotation x is y",))))
    assert len(caplog.records) == 3


@pytest.mark.parametrize(("values", "lines"), [(0, 0), (1, 1), (3, 3), (4, 1), (300, 1)])
def test_very_many_values_changed_by_somebody_else_are_one_line(values, lines, caplog):
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
    log_round(LogDeduplicator(), Round((*changed, refused)), ())
    reported = [one for one in caplog.records if one.message == "changed by somebody else"]
    assert len(reported) == lines
    if lines < values:
        assert reported[0].fields == {  # type: ignore[attr-defined]
            "values": values,
            "knobs": "memory.low, memory.min",
            "example": "memory.min of kubepods/pod0",
            "reason": "changed by somebody else; ours is written again",
        }
    assert caplog.messages.count("not written") == 1
