from __future__ import annotations

from typing import Any

from koord_kube.program_start import WarningLog
from koord_service.logs import EventLog


class Lines(EventLog):
    """A log that keeps what is logged."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []

    def warning(self, event: str, **fields: Any) -> None:
        self.kept.append(fields)


def test_the_same_of_many_objects_is_one_line_until_it_is_said_again_with_its_count() -> None:
    lines, now = Lines(), 1000.0
    warn = WarningLog(lines, lambda: now)
    for number in range(3):
        warn(f"node-{number}: annotation is not valid JSON")
    warn("node-1: something else")
    now += 301.0
    warn("node-7: annotation is not valid JSON")
    assert lines.kept == [
        {"what": "node-0: annotation is not valid JSON", "times": None},
        {"what": "node-1: something else", "times": None},
        {"what": "node-7: annotation is not valid JSON", "times": 3},
    ]
