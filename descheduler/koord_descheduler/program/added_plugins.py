"""Plugins of others, which their packages name as entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from koord_descheduler.config.plugin_catalogue import Plugins, own_plugins
from koord_descheduler.plugin import DeschedulerPlugin

GROUP = "pykoord.descheduler_plugins"


def added_plugins() -> Plugins:
    """Return the plugins that other packages add, by name.

    Raises:
        ValueError: one cannot be loaded, is not a plugin, or has a name that is taken.
    """
    found: dict[str, type[DeschedulerPlugin]] = {}
    for entry_point in entry_points(group=GROUP):
        if entry_point.name in found:
            raise ValueError(f"{_about(entry_point)}: another package has a plugin of that name")
        found[entry_point.name] = _load(entry_point)
    return found


def _load(entry_point: EntryPoint) -> type[DeschedulerPlugin]:
    about = _about(entry_point)
    if entry_point.name in own_plugins():
        raise ValueError(f"{about}: the name is a plugin of the descheduler's own")
    try:
        found = entry_point.load()
    except Exception as error:
        raise ValueError(f"{about} cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, DeschedulerPlugin)):
        raise ValueError(f"{about} is not a DeschedulerPlugin")  # noqa: TRY004 - of a configuration
    if getattr(found, "name", "") != entry_point.name:
        raise ValueError(f"{about} has another name: {getattr(found, 'name', 'none')}")
    return found


def _about(entry_point: EntryPoint) -> str:
    return f"plugin {entry_point.name} of {entry_point.value}"
