"""Profiles: the plugins that place the pods of one scheduler name. No IO."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from koord_scheduler.gangs.gang_spec import GangDefaults
from koord_scheduler.plugin import Plugin


class EnabledPlugin(NamedTuple):
    """A plugin, whether it ``filters``, and the ``weight`` of its score; 0: it does not score."""

    plugin: Plugin
    filters: bool = True
    weight: int = 1


@dataclass(frozen=True)
class Profile:
    """Placement of pods whose ``spec.schedulerName`` is ``scheduler_name``.

    ``honors_gates``: pods with scheduling gates wait (plugin SchedulingGates). ``preempts``: pods
    that fit nowhere may take the place of pods with a lower priority (DefaultPreemption).
    ``preempting`` are the plugins whose ``victims`` come before those.
    ``percentage_of_nodes_to_score`` is for classes that were never seen, in large clusters
    (``node_sample``). ``gangs``: the pods of gangs start together (Coscheduling).
    """

    scheduler_name: str
    plugins: tuple[EnabledPlugin, ...]
    honors_gates: bool = True
    preempts: bool = True
    percentage_of_nodes_to_score: int = 0
    gangs: GangDefaults | None = None
    preempting: tuple[Plugin, ...] = ()

    @cached_property
    def admitting(self) -> tuple[Plugin, ...]:
        """The plugins that may keep a class from all nodes at times."""
        plugins = (plugin.plugin for plugin in self.plugins if plugin.filters)
        return tuple(plugin for plugin in plugins if type(plugin).admit is not Plugin.admit)

    @cached_property
    def measuring(self) -> tuple[Plugin, ...]:
        """The plugins that may say how much room a class needs at least."""
        plugins = (plugin.plugin for plugin in self.plugins if plugin.filters)
        return tuple(
            plugin for plugin in plugins if type(plugin).least_room is not Plugin.least_room
        )

    @cached_property
    def helping(self) -> tuple[Plugin, ...]:
        """The plugins that may do something for a pod that fits nowhere."""
        plugins = (plugin.plugin for plugin in self.plugins)
        return tuple(
            plugin for plugin in plugins if type(plugin).post_filter is not Plugin.post_filter
        )

    @cached_property
    def reserving(self) -> tuple[Plugin, ...]:
        """The plugins that take more for a pod than room on its node."""
        plugins = (plugin.plugin for plugin in self.plugins)
        return tuple(plugin for plugin in plugins if type(plugin).reserve is not Plugin.reserve)
