from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

import pytest
from koord_model.node_slo import NodeSLO
from koord_model.used_threshold import UsedThreshold
from koordlet.qos_manager.core.settings import StrategySettings, find_unknown, parse_settings
from koordlet.qos_manager.core.strategy import Plan, Strategy, StrategyMode, StrategyView
from msgspec import Meta


class Policy(StrEnum):
    ONE = "one"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Settings:
    percent: Annotated[int, Meta(ge=0, le=100)] = 65
    lower: Annotated[int, Meta(ge=0, le=100)] = 0
    policy: Policy = Policy.ONE
    parts: tuple[Part, ...] = field(default_factory=tuple)
    most: int | None = None
    usual: StrategyMode = StrategyMode.SHADOW

    def __post_init__(self) -> None:
        if self.lower > self.percent:
            raise ValueError(f"lower {self.lower} is above percent {self.percent}")


def _settings(slo: NodeSLO) -> Settings:
    return Settings(percent=slo.threshold.cpu_suppress)


def _plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    return Plan()


STRATEGY = Strategy("mine", "Mine", 1.0, Settings, _settings, _plan)


def ask(**given: object) -> StrategySettings:
    threshold = UsedThreshold(cpu_suppress=50)
    return parse_settings(STRATEGY, NodeSLO(threshold=threshold, strategies={"mine": given}))


def test_fields_count_one_by_one_over_koordinators_sections() -> None:
    on = StrategyMode.ON
    assert parse_settings(STRATEGY, NodeSLO()) == StrategySettings(on, Settings(percent=65))
    assert ask() == StrategySettings(on, Settings(percent=50))
    assert [ask(mode=mode.value).mode for mode in StrategyMode] == list(StrategyMode)
    # What YAML takes bare words for, wherever a mode is set.
    assert [ask(mode=bare, usual=bare) for bare in (True, False)] == [
        StrategySettings(mode, Settings(percent=50, usual=mode)) for mode in (on, StrategyMode.OFF)
    ]
    found = ask(percent=40, policy="other", parts=[{"name": "a"}, {"name": "b", "seconds": 2}])
    parts = (Part("a"), Part("b", 2.0))
    expected = Settings(percent=40, policy=Policy.OTHER, parts=parts)
    assert found == StrategySettings(on, expected)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"percent": 170}, "mine.percent is 170; expected int <= 100 (50 kept)"),
        ({"percent": "many"}, 'mine.percent is "many"; expected int, got str (50 kept)'),
        ({"percent": True}, "mine.percent is true; expected int, got bool (50 kept)"),
        ({"policy": "x"}, 'mine.policy is "x"; expected one or other ("one" kept)'),
        ({"policy": True}, 'mine.policy is true; expected one or other ("one" kept)'),
        ({"parts": [{}]}, "mine.parts is a list; object missing required field name - at $[0]"),
        ({"most": "x"}, 'mine.most is "x"; expected int | null, got str (left unset)'),
        ({"threshold": 1}, "mine.threshold is not a setting; there are percent, lower, policy, "),
        ({"lower": 60}, "mine: lower 60 is above percent 50 (all but the mode ignored)"),
    ],
)
def test_what_cannot_be_used_costs_one_line_and_nothing_else(
    given: dict[str, object], line: str
) -> None:
    found = ask(mode="shadow", **given)
    assert (found.mode, found.settings) == (StrategyMode.SHADOW, Settings(percent=50))
    [ignored] = found.ignored
    assert ignored.startswith(f"NodeSLO extensions.pykoord.strategies.{line}")


def test_a_mode_or_a_strategy_that_there_is_not() -> None:
    where = "NodeSLO extensions.pykoord.strategies"
    found = ask(mode="onn", percent=40)
    assert (found.mode, found.settings.percent) == (StrategyMode.SHADOW, 40)
    wrong = 'mine.mode is "onn"; expected off or shadow or on (shadow until then)'
    assert found.ignored == (f"{where}.{wrong}",)
    slo = NodeSLO(strategies={"mine": {}, "yours": {}})
    [line] = find_unknown({"mine": STRATEGY, "ours": STRATEGY}, slo)
    assert line == f'{where} names "yours"; those with their gate on are mine, ours (ignored)'
