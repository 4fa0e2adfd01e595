"""Finding collectors by their file names, and which of them the settings switch on."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from types import ModuleType
from typing import Any

from koordlet.metrics_advisor import collectors
from koordlet.metrics_advisor.collector_runner import ScheduledCollector
from koordlet.metrics_advisor.contract.collector import CollectorSources, CollectorState


def select_enabled(
    settings: Mapping[str, Any], gates: Mapping[str, bool], sources: CollectorSources
) -> tuple[tuple[ScheduledCollector, ...], tuple[CollectorState, ...]]:
    """The collectors that are on, in order, and the states of those that are off.

    ``settings`` are koordlet's, by name. A collector that is off is not even loaded further
    than its head.
    """
    modules = {
        name: importlib.import_module(f"{collectors.__name__}.{name}")
        for _, name, _ in pkgutil.iter_modules(collectors.__path__)
    }
    on, off = [], []
    for name in _in_order(modules):
        module = modules[name]
        interval = float(settings[module.INTERVAL])
        reason = _off(module, settings, gates)
        if reason:
            state = CollectorState(name, interval, enabled=False, available=False, reason=reason)
            off.append(state)
        else:
            blocking = getattr(module, "BLOCKING", False)
            on.append(ScheduledCollector(name, module.Collector(sources), interval, blocking))
    return tuple(on), tuple(off)


def _off(module: ModuleType, settings: Mapping[str, Any], gates: Mapping[str, bool]) -> str:
    """Return why a collector is off; "" if it is on."""
    for switch in module.ENABLED_BY:
        if switch[0].isupper():
            if not gates[switch]:
                return f"disabled; enable with --feature-gates={switch}=true"
        elif not settings[switch]:
            return f"disabled; enable with --{switch.replace('_', '-')}"
    return ""


def _in_order(modules: Mapping[str, ModuleType]) -> Iterable[str]:
    order: TopologicalSorter[str] = TopologicalSorter()
    for name, module in modules.items():
        order.add(name, *(other for other in getattr(module, "AFTER", ()) if other in modules))
    return order.static_order()
