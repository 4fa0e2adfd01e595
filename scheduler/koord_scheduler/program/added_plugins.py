"""Plugins of others, which their packages name as entry points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from koord_scheduler.config.known_plugins import EXTENSION_POINTS
from koord_scheduler.config.profiles import AddedPlugins
from koord_scheduler.plugin import Plugin

GROUP = "pykoord.scheduler_plugins"


def added_plugins() -> AddedPlugins:
    """Return the builder of each of them from its arguments.

    Raises:
        ValueError: one cannot be loaded, or has a name that Kubernetes or another one uses.
    """
    found: dict[str, Callable[[Mapping[str, Any]], Plugin]] = {}
    for entry_point in entry_points(group=GROUP):
        if entry_point.name in found:
            raise ValueError(f"{_about(entry_point)}: another package has a plugin of that name")
        found[entry_point.name] = _load(entry_point)
    return found


def _load(entry_point: EntryPoint) -> Callable[[Mapping[str, Any]], Plugin]:
    if entry_point.name in EXTENSION_POINTS:
        raise ValueError(f"{_about(entry_point)}: the name is a plugin of Kubernetes")
    try:
        build: Callable[[Mapping[str, Any]], Plugin] = entry_point.load()
    except Exception as error:
        raise ValueError(f"{_about(entry_point)} cannot be loaded: {error}") from error
    return build


def _about(entry_point: EntryPoint) -> str:
    return f"plugin {entry_point.name} of {entry_point.value}"
