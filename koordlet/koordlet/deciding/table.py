"""Finding strategies by file names and entry points, and which of them the gates switch on."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from koord_service.logs import get_log

from koordlet import strategies
from koordlet.config import Settings
from koordlet.deciding.contract import Strategy
from koordlet.telling import reason_of

GROUP = "pykoord.strategies"
"""Entry points of others' strategies: each a module as ``deciding.contract`` describes."""

_log = get_log("koordlet.decider")


@dataclass(frozen=True, slots=True)
class Off:
    """A strategy that is not asked, and why."""

    name: str
    gate: str
    reason: str


def available() -> tuple[str, ...]:
    """The names of our own strategies."""
    return tuple(sorted(one.name for one in pkgutil.iter_modules(strategies.__path__)))


def choose(
    settings: Settings, gates: Mapping[str, bool]
) -> tuple[tuple[Strategy, ...], tuple[Off, ...]]:
    """The strategies that are on, by name, and those that are off.

    Others' have no gate of ours: that they are installed switches them on, unless a gate of the
    name they give is off.
    """
    on, off = [], []
    for name, module in sorted(_modules(), key=lambda found: found[0]):
        try:
            strategy = _strategy(name, module, settings)
        except (AttributeError, TypeError, ValueError) as error:
            _log.error("strategy left out", strategy=name, reason=reason_of(error))
            off.append(Off(name, "", f"is no strategy: {error}"))
            continue
        if gates.get(strategy.gate, True):
            on.append(strategy)
        else:
            reason = f"--feature-gates {strategy.gate}=true is not given"
            off.append(Off(name, strategy.gate, reason))
    return tuple(on), tuple(off)


def _modules() -> Iterator[tuple[str, Any]]:
    own = available()
    for name in own:
        yield name, importlib.import_module(f"{strategies.__name__}.{name}")
    for point in entry_points(group=GROUP):
        if point.name in own:
            reason = f"{point.value} has the name of one of koordlet's own"
            _log.error("strategy left out", strategy=point.name, reason=reason)
            continue
        found = _loaded(point)
        if found is not None:
            yield point.name, found


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        # Somebody else's code: whatever it raises, ours goes on.
        reason = f"{point.value}: {reason_of(error)}"
        _log.error("strategy left out", strategy=point.name, reason=reason)
        return None


def _strategy(name: str, module: Any, settings: Settings) -> Strategy:
    interval = module.INTERVAL
    seconds = getattr(settings, interval) if isinstance(interval, str) else float(interval)
    return Strategy(
        name, module.GATE, float(seconds), module.Settings, module.settings, module.plan
    )
