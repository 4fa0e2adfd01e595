"""Finding collectors by their file names, and which of them the settings switch on."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from graphlib import TopologicalSorter
from types import ModuleType

from koordlet import collectors
from koordlet.collecting.contract import CollectorState, Sources
from koordlet.collecting.observer import Watched
from koordlet.config import Settings


def available() -> tuple[str, ...]:
    """The names of all collectors, those first whose samples others use."""
    return tuple(_in_order({name: _module(name) for name in _names()}))


def choose(
    settings: Settings, gates: Mapping[str, bool], sources: Sources
) -> tuple[tuple[Watched, ...], tuple[CollectorState, ...]]:
    """The collectors that are on, in order, and the states of those that are off.

    A collector that is off is not even loaded further than its head.
    """
    modules = {name: _module(name) for name in _names()}
    on, off = [], []
    for name in _in_order(modules):
        module = modules[name]
        interval = float(getattr(settings, module.INTERVAL))
        reason = _off(module, settings, gates)
        if reason:
            state = CollectorState(name, interval, enabled=False, available=False, reason=reason)
            off.append(state)
        else:
            aside = getattr(module, "ASIDE", False)
            on.append(Watched(name, module.Collector(sources), interval, aside))
    return tuple(on), tuple(off)


def _off(module: ModuleType, settings: Settings, gates: Mapping[str, bool]) -> str:
    """Why a collector is off; "" where it is on."""
    for switch in module.ENABLED_BY:
        if switch[0].isupper():
            if not gates[switch]:
                return f"--feature-gates {switch}=true is not given"
        elif not getattr(settings, switch):
            return f"--{switch.replace('_', '-')} is not given"
    return ""


def _names() -> Iterator[str]:
    return (one.name for one in pkgutil.iter_modules(collectors.__path__))


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{collectors.__name__}.{name}")


def _in_order(modules: Mapping[str, ModuleType]) -> Iterable[str]:
    order: TopologicalSorter[str] = TopologicalSorter()
    for name, module in modules.items():
        order.add(name, *(one for one in getattr(module, "AFTER", ()) if one in modules))
    return order.static_order()
