from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest
from koordlet.agent.config import KoordletSettings
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.qos_manager import strategy_table
from koordlet.qos_manager.core.strategy import Plan

Words = list[tuple[str, dict[str, str]]]

ALL = {**DEFAULTS, **dict.fromkeys(DEFAULTS, True)}


@dataclass(frozen=True, slots=True)
class TheirSettings:
    percent: int = 1


THEIRS = SimpleNamespace(
    GATE="Theirs",
    INTERVAL=5,
    Settings=TheirSettings,
    settings=lambda _: TheirSettings(),
    plan=lambda *_: Plan(),
)


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Entry points by name; a value that is an exception is raised when it is loaded."""
    found: dict[str, Any] = {}

    class Point(EntryPoint):
        def load(self) -> Any:
            if isinstance(found[self.name], Exception):
                raise found[self.name]
            return found[self.name]

    def entry_points(group: str) -> list[EntryPoint]:
        assert group == "pykoord.strategies"
        return [Point(name, f"their.{name}", group) for name in found]

    monkeypatch.setattr(strategy_table, "entry_points", entry_points)
    return found


def test_gates_switch_off_and_the_interval_is_a_setting_or_seconds(points: dict[str, Any]) -> None:
    points["theirs"] = THEIRS
    settings = KoordletSettings(reconcile_interval_seconds=3.0)
    on, off = strategy_table.select_enabled(asdict(settings), {**ALL, "RdtResctrl": False})
    intervals = {one.name: one.interval for one in on}
    assert (intervals["blkio"], intervals["theirs"]) == (3.0, 5.0)
    reason = "disabled; enable with --feature-gates=RdtResctrl=true"
    assert off == (strategy_table.DisabledStrategy("resctrl", "RdtResctrl", reason),)
    assert "resctrl" not in intervals


@pytest.mark.parametrize(
    ("name", "found", "reason"),
    [
        ("theirs", ImportError("no module"), "their.theirs: ImportError: no module"),
        ("resctrl", THEIRS, "their.resctrl has the name of one of koordlet's own"),
        ("theirs", SimpleNamespace(GATE="A"), "AttributeError: "),
    ],
)
def test_others_that_cannot_be_used_are_left_out_with_a_line(
    points: dict[str, Any], words: Callable[..., Words], name: str, found: object, reason: str
) -> None:
    points[name] = found
    on, _ = strategy_table.select_enabled(asdict(KoordletSettings()), ALL)
    assert tuple(one.name for one in on) == strategy_table.available()
    [(_, said)] = words("strategy ignored")
    assert said["strategy"] == name
    assert said["reason"].startswith(reason)
