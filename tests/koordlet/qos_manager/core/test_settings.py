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


def test_without_a_word_it_is_on_with_what_koordinators_sections_say() -> None:
    assert parse_settings(STRATEGY, NodeSLO()) == StrategySettings(
        StrategyMode.ON, Settings(percent=65)
    )
    assert ask() == StrategySettings(StrategyMode.ON, Settings(percent=50))


@pytest.mark.parametrize("mode", list(StrategyMode))
def test_a_mode(mode: StrategyMode) -> None:
    assert ask(mode=mode.value).mode is mode


def test_fields_count_one_by_one() -> None:
    found = ask(percent=40, policy="other", parts=[{"name": "a"}, {"name": "b", "seconds": 2}])
    parts = (Part("a"), Part("b", 2.0))
    assert found == StrategySettings(
        StrategyMode.ON, Settings(percent=40, policy=Policy.OTHER, parts=parts)
    )


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"percent": 170}, "mine.percent is 170; expected int <= 100 (50 kept)"),
        ({"percent": "many"}, 'mine.percent is "many"; expected int, got str (50 kept)'),
        ({"percent": True}, "mine.percent is true; expected int, got bool (50 kept)"),
        ({"policy": "x"}, 'mine.policy is "x"; invalid enum value \'x\' ("one" kept)'),
        ({"parts": [{}]}, "mine.parts is a list; object missing required field name - at $[0]"),
        ({"most": "x"}, 'mine.most is "x"; expected int | null, got str (left unset)'),
        (
            {"threshold": 1},
            (
                "mine.threshold is not a setting; "
                "there are percent, lower, policy, parts, most (ignored)"
            ),
        ),
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


def test_a_mode_that_is_none_does_nothing_until_it_is_clear() -> None:
    found = ask(mode="onn", percent=40)
    assert (found.mode, found.settings.percent) == (StrategyMode.SHADOW, 40)
    [line] = found.ignored
    assert line == (
        'NodeSLO extensions.pykoord.strategies.mine.mode is "onn"; '
        "expected off or shadow or on (shadow until then)"
    )


def test_strategies_that_there_are_not() -> None:
    slo = NodeSLO(strategies={"mine": {}, "yours": {}})
    [line] = find_unknown({"mine": STRATEGY, "ours": STRATEGY}, slo)
    assert line == (
        'NodeSLO extensions.pykoord.strategies names "yours"; there are mine, ours (ignored)'
    )
