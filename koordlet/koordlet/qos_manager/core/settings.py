"""The mode and the settings of a strategy. No IO.

A strategy reads its settings from Koordinator's sections of the NodeSLO. The NodeSLO's
``extensions.pykoord.strategies.<name>`` overrides them field by field, with the field names
of its ``Settings``; ``mode`` is "off", "shadow" or "on"::

    extensions:
      pykoord:
        strategies:
          cpu_suppress: {mode: shadow, threshold_percent: 60}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache
from typing import Any, get_type_hints

import msgspec
from koord_model.fields import shown
from koord_model.node_slo import NodeSLO

from koordlet.qos_manager.core.strategy import Strategy, StrategyMode

_WHERE = "NodeSLO extensions.pykoord.strategies"
_MODE = "mode"


@dataclass(frozen=True, slots=True)
class StrategySettings:
    """Mode and settings of one strategy; ``ignored`` has a line for each unusable field."""

    mode: StrategyMode
    settings: Any
    ignored: tuple[str, ...] = ()


def parse_settings(strategy: Strategy, slo: NodeSLO) -> StrategySettings:
    """Read the mode and the settings of a strategy from the NodeSLO."""
    given = slo.strategies.get(strategy.name, {})
    ignored: list[str] = []
    settings = strategy.settings(slo)
    changes = _read(strategy, given, settings, ignored)
    try:
        settings = replace(settings, **changes)
    except ValueError as error:
        # Each field is valid, but the combination is not.
        ignored.append(f"{_WHERE}.{strategy.name}: {error} (all but the mode ignored)")
    return StrategySettings(_mode(strategy, given, ignored), settings, tuple(ignored))


def find_unknown(strategies: Mapping[str, object], slo: NodeSLO) -> tuple[str, ...]:
    """Report strategies that the NodeSLO names and that do not exist, or whose gate is off."""
    known = ", ".join(sorted(strategies))
    return tuple(
        f"{_WHERE} names {shown(name)}; those with their gate on are {known} (ignored)"
        for name in slo.strategies
        if name not in strategies
    )


def settings_problems(strategies: Mapping[str, Strategy], slo: NodeSLO) -> tuple[str, ...]:
    """Lines about all that the NodeSLO says of strategies and that cannot be used."""
    lines = list(find_unknown(strategies, slo))
    for strategy in strategies.values():
        if strategy.name in slo.strategies:
            lines += _problems_of(strategy, slo)
    return tuple(lines)


def _problems_of(strategy: Strategy, slo: NodeSLO) -> tuple[str, ...]:
    try:
        return parse_settings(strategy, slo).ignored
    except Exception as error:  # third-party code
        return (f"{strategy.name} cannot read its settings: {error}",)


def _mode(strategy: Strategy, given: Mapping[str, object], ignored: list[str]) -> StrategyMode:
    word = given.get(_MODE)
    if word is None:
        return StrategyMode.ON
    try:
        return StrategyMode.of(_convert(word, StrategyMode))
    except ValueError as error:
        # The user did not want plain "on": write nothing until the mode is valid.
        ignored.append(
            f"{_WHERE}.{strategy.name}.{_MODE} is {shown(word)}; {error} "
            f"({StrategyMode.SHADOW} until then)"
        )
        return StrategyMode.SHADOW


def _read(
    strategy: Strategy, given: Mapping[str, object], usual: object, ignored: list[str]
) -> dict[str, object]:
    """The fields that the NodeSLO sets and that are valid."""
    types = _types(strategy.settings_type)
    changes = {}
    for name, value in given.items():
        if name == _MODE:
            continue
        where = f"{_WHERE}.{strategy.name}.{name}"
        if name not in types:
            ignored.append(f"{where} is not a setting; there are {', '.join(types)} (ignored)")
            continue
        try:
            changes[name] = _convert(value, types[name])
        except ValueError as error:
            kept = getattr(usual, name)
            otherwise = "left unset" if kept is None else f"{shown(kept)} kept"
            ignored.append(f"{where} is {shown(value)}; {error} ({otherwise})")
    return changes


def _convert(value: object, wanted: Any) -> object:
    """The value as the type that is wanted.

    Raises:
        ValueError: it is none; the message says what was expected.
    """
    words: Any = wanted
    if isinstance(wanted, type) and issubclass(wanted, StrEnum):
        try:
            return words(value)
        except ValueError:
            raise ValueError(f"expected {' or '.join(words)}") from None
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise ValueError(_lower(str(error))) from None


@cache
def _types(settings_type: type) -> Mapping[str, Any]:
    hints = get_type_hints(settings_type, include_extras=True)
    return {field.name: hints[field.name] for field in fields(settings_type)}


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:].replace("`", "")
