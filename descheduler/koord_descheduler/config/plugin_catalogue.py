"""The descheduler's plugins by name: those of this package, and those of others. No IO."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType, ModuleType

from koord_descheduler import plugins
from koord_descheduler.plugin import DeschedulerPlugin

Plugins = Mapping[str, type[DeschedulerPlugin]]


@cache
def own_plugins() -> Plugins:
    """The plugins of this package: of its modules, and of ``plugin`` in its folders."""
    found = {plugin.name: plugin for module in _modules() for plugin in _classes(module)}
    return MappingProxyType(found)


def unknown_plugin(name: str, known: Plugins) -> str:
    """Describe the names that may be meant by one that is not known."""
    near = get_close_matches(name, known, n=1)
    return f"{near[0]}?" if near else f"one of {', '.join(sorted(known))}"


def _modules() -> Iterator[ModuleType]:
    for module in pkgutil.iter_modules(plugins.__path__, f"{plugins.__name__}."):
        yield importlib.import_module(f"{module.name}.plugin" if module.ispkg else module.name)


def _classes(module: ModuleType) -> Iterator[type[DeschedulerPlugin]]:
    for value in vars(module).values():
        is_plugin = isinstance(value, type) and issubclass(value, DeschedulerPlugin)
        if is_plugin and value.__module__ == module.__name__ and hasattr(value, "name"):
            yield value
