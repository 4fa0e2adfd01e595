"""What is asked of a strategy now: its mode and its settings. No IO.

A strategy reads its settings from Koordinator's sections of the NodeSLO. What the NodeSLO's
``extensions.pykoord.strategies.<name>`` says counts more, field by field, spelled as the fields
of its ``Settings``; ``mode`` is "off", "shadow" or "on"::

    extensions:
      pykoord:
        strategies:
          cpu_suppress: {mode: shadow, threshold_percent: 60}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, get_type_hints

import msgspec
from koord_model.fields import shown
from koord_model.node_slo import NodeSLO

from koordlet.deciding.contract import Mode, Strategy

_WHERE = "NodeSLO extensions.pykoord.strategies"
_MODE = "mode"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of one strategy; ``ignored`` are lines about what cannot be used of it."""

    mode: Mode
    settings: Any
    ignored: tuple[str, ...] = ()


def asked(strategy: Strategy, slo: NodeSLO) -> Asked:
    """The mode and the settings that the NodeSLO gives a strategy."""
    given = slo.strategies.get(strategy.name, {})
    ignored: list[str] = []
    settings = strategy.settings(slo)
    changes = _read(strategy, given, settings, ignored)
    try:
        settings = replace(settings, **changes)
    except ValueError as error:
        # Each field is fine, but not all of them together.
        ignored.append(f"{_WHERE}.{strategy.name}: {error} (all but the mode ignored)")
    return Asked(_mode(strategy, given, ignored), settings, tuple(ignored))


def unknown(strategies: Mapping[str, object], slo: NodeSLO) -> tuple[str, ...]:
    """Lines about strategies that the NodeSLO names and that there are not."""
    known = ", ".join(sorted(strategies))
    return tuple(
        f"{_WHERE} names {shown(name)}; there are {known} (ignored)"
        for name in slo.strategies
        if name not in strategies
    )


def _mode(strategy: Strategy, given: Mapping[str, object], ignored: list[str]) -> Mode:
    word = given.get(_MODE)
    if word is None:
        return Mode.ON
    try:
        return Mode(word)  # type: ignore[arg-type]
    except ValueError:
        expected = " or ".join(Mode)
        # Somebody wanted something else than plainly on: nothing is done until it is clear what.
        ignored.append(
            f"{_WHERE}.{strategy.name}.{_MODE} is {shown(word)}; expected {expected} "
            f"({Mode.SHADOW} until then)"
        )
        return Mode.SHADOW


def _read(
    strategy: Strategy, given: Mapping[str, object], usual: object, ignored: list[str]
) -> dict[str, object]:
    """The fields that are given and can be used."""
    types = _types(strategy.settings_type)
    changes = {}
    for name, value in given.items():
        if name == _MODE:
            continue
        where = f"{_WHERE}.{strategy.name}.{name}"
        if name not in types:
            ignored.append(f"{where} is no setting; there are {', '.join(types)} (ignored)")
            continue
        try:
            changes[name] = msgspec.convert(value, types[name])
        except msgspec.ValidationError as error:
            kept = getattr(usual, name)
            otherwise = "left unset" if kept is None else f"{shown(kept)} kept"
            ignored.append(f"{where} is {shown(value)}; {_lower(str(error))} ({otherwise})")
    return changes


@cache
def _types(settings_type: type) -> Mapping[str, Any]:
    hints = get_type_hints(settings_type, include_extras=True)
    return {one.name: hints[one.name] for one in fields(settings_type)}


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:].replace("`", "")
