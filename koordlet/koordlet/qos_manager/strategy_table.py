"""Finds strategies by file name and entry point, and selects those that gates enable."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from koord_service.error_text import describe_error
from koord_service.logs import get_log

from koordlet.qos_manager import strategies
from koordlet.qos_manager.core.strategy import Strategy

GROUP = "pykoord.strategies"
"""Entry points of third-party strategies: each a module as ``core.strategy`` describes."""

_log = get_log("koordlet.decider")


@dataclass(frozen=True, slots=True)
class DisabledStrategy:
    """A strategy that does not run, and why."""

    name: str
    gate: str
    reason: str


def available() -> tuple[str, ...]:
    """The names of our own strategies."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(strategies.__path__)))


def load(name: str) -> ModuleType:
    """One of our own strategies: a module, or ``strategy.py`` in a folder with its arithmetic."""
    path = f"{strategies.__name__}.{name}"
    found = importlib.import_module(path)
    return importlib.import_module(f"{path}.strategy") if hasattr(found, "__path__") else found


def select_enabled(
    settings: Mapping[str, Any], gates: Mapping[str, bool]
) -> tuple[tuple[Strategy, ...], tuple[DisabledStrategy, ...]]:
    """The strategies that are on, by name, and those that are off.

    ``settings`` are koordlet's, by name: a strategy may name one as its interval.
    Third-party strategies have no gate here: they are on once installed, unless a gate of the
    name they declare is off.
    """
    on, off = [], []
    for name, module in sorted(_modules(), key=lambda found: found[0]):
        try:
            strategy = _strategy(name, module, settings)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            _log.error("strategy ignored", strategy=name, reason=describe_error(error))
            off.append(DisabledStrategy(name, "", f"is not a valid strategy: {error}"))
            continue
        if gates.get(strategy.gate, True):
            on.append(strategy)
        else:
            reason = f"disabled; enable with --feature-gates={strategy.gate}=true"
            off.append(DisabledStrategy(name, strategy.gate, reason))
    return tuple(on), tuple(off)


def _modules() -> Iterator[tuple[str, Any]]:
    own = available()
    for name in own:
        yield name, load(name)
    for point in entry_points(group=GROUP):
        if point.name in own:
            reason = f"{point.value} has the name of one of koordlet's own"
            _log.error("strategy ignored", strategy=point.name, reason=reason)
            continue
        found = _loaded(point)
        if found is not None:
            yield point.name, found


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        # Third-party code: koordlet goes on, whatever it raises.
        reason = f"{point.value}: {describe_error(error)}"
        _log.error("strategy ignored", strategy=point.name, reason=reason)
        return None


def _strategy(name: str, module: Any, settings: Mapping[str, Any]) -> Strategy:
    interval = module.INTERVAL
    seconds = settings[interval] if isinstance(interval, str) else float(interval)
    return Strategy(
        name, module.GATE, float(seconds), module.Settings, module.settings, module.plan
    )
