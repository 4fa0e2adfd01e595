"""A profile of the configuration, made what the scheduler places pods by. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from msgspec import structs

from koord_scheduler.arguments.problems import refuse_if
from koord_scheduler.config.builders import BUILDERS, support
from koord_scheduler.config.component_config import KubeSchedulerProfile, PluginSets
from koord_scheduler.config.known_plugins import (
    EXTENSION_POINTS,
    UNPREPARED,
    Support,
    extension_points,
)
from koord_scheduler.config.plugin_args import AllPluginArgs
from koord_scheduler.config.plugin_points import ALL, PluginPoints, plugin_points
from koord_scheduler.config.profile_args import name_problems, plugin_args, unknown_plugin
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.plugin import Plugin
from koord_scheduler.plugins.missing_plugins import MissingPlugins

AddedPlugins = Mapping[str, Callable[[Mapping[str, Any]], Plugin]]
"""Builders of others' plugins from their arguments in ``pluginConfig``, by name."""


@dataclass(frozen=True)
class ConfiguredProfile:
    """A profile, and what else was said about it.

    ``points`` has all plugins that are enabled, ``not_built`` those of them that are not there.
    """

    profile: Profile
    points: PluginPoints
    not_built: frozenset[str]
    args: AllPluginArgs

    def guarded(self) -> Profile:
        """The profile, with which pods wait that need what is not built, enabled or not."""
        guard = EnabledPlugin(MissingPlugins(), True, 0)
        return replace(self.profile, plugins=(guard, *self.profile.plugins))


def configured_profile(
    given: KubeSchedulerProfile,
    percentage: int,
    path: str,
    added: AddedPlugins,
    ignored_resources: tuple[str, ...] = (),
) -> ConfiguredProfile:
    """A profile whose ``percentage`` of nodes to score is this one if it has none itself.

    ``added`` makes plugins that are not Kubernetes' from their arguments. If extenders see to some
    resources, NodeResourcesFit ignores these ``ignored_resources`` and no others.

    Raises:
        SchedulerConfigError: it cannot be honoured; ``path`` is where it is.
    """
    unknown = _unknown_plugins(given.plugins, f"{path}.plugins", added)
    refuse_if([*unknown, *name_problems(given.plugin_config, f"{path}.pluginConfig", added)])
    points = plugin_points(given.plugins, f"{path}.plugins")
    refuse_if(_incomplete_plugins(points, f"{path}.plugins"))
    args = plugin_args(given.plugin_config, f"{path}.pluginConfig")
    if ignored_resources:
        fit = structs.replace(args.node_resources_fit, ignored_resources=ignored_resources)
        args = structs.replace(args, node_resources_fit=fit)
    own = given.percentage_of_nodes_to_score
    acting = points.names() - added.keys()
    not_built = frozenset(name for name in acting if support(name) is Support.NOT_BUILT)
    profile = _profile(given.scheduler_name or "", points, _builders(given, args, added))
    looked_at = percentage if own is None else own
    has_gangs = any(points.has("permit", name) for name in ("Coscheduling", "GangScheduling"))
    by_reservation = points.has("postFilter", "Reservation") and args.reservation.enable_preemption
    profile = replace(
        profile,
        percentage_of_nodes_to_score=looked_at,
        preempts=profile.preempts or bool(by_reservation),
        gangs=args.coscheduling.defaults() if has_gangs else None,
    )
    return ConfiguredProfile(profile, points, not_built, args)


def _builders(
    given: KubeSchedulerProfile, args: AllPluginArgs, added: AddedPlugins
) -> Mapping[str, Callable[[], Plugin]]:
    """Return the builder of each plugin, with its arguments in this profile."""
    own = {one.name: one.args or {} for one in given.plugin_config}
    return {
        **{name: partial(build, args) for name, build in BUILDERS.items()},
        **{name: partial(build, own.get(name, {})) for name, build in added.items()},
    }


def _unknown_plugins(plugins: PluginSets, path: str, added: AddedPlugins) -> Iterator[str]:
    for point, own in plugins.by_point().items():
        for place, one in enumerate(own.enabled):
            yield from unknown_plugin(one.name, f"{path}.{point}.enabled[{place}].name", added)
        for place, off in enumerate(own.disabled):
            if off.name != ALL:
                at = f"{path}.{point}.disabled[{place}].name"
                yield from unknown_plugin(off.name, at, added)


def _incomplete_plugins(points: PluginPoints, path: str) -> Iterator[str]:
    """Plugins that filter or score without what they prepare first: pods would fail or differ."""
    for name in sorted(points.names() & BUILDERS.keys() - UNPREPARED):
        for before, point in (("preFilter", "filter"), ("preScore", "score")):
            prepares = before in EXTENSION_POINTS[name]
            if prepares and points.has(point, name) and not points.has(before, name):
                yield _incomplete(path, name, point, before)
    # Without its filter, it would still keep pods off nodes by their names.
    if points.has("preFilter", "NodeAffinity") and not points.has("filter", "NodeAffinity"):
        yield _incomplete(path, "NodeAffinity", "preFilter", "filter")


def _incomplete(path: str, name: str, on: str, off: str) -> str:
    return f"{path}: {name} is enabled at {on} and not at {off}; enable it at both or at neither"


def _profile(
    name: str, points: PluginPoints, builders: Mapping[str, Callable[[], Plugin]]
) -> Profile:
    prepare = [
        point for point in points.points["preFilter"] if "filter" not in extension_points(point)
    ]
    filters = {*points.points["filter"], *prepare}
    acting = dict.fromkeys(
        (
            *points.points["filter"],
            *points.points["score"],
            *prepare,
            *points.points["permit"],
            *points.points["placementGenerate"],
        )
    )
    plugins = tuple(
        EnabledPlugin(builders[one](), one in filters, points.weights.get(one, 0))
        for one in acting
        if one in builders
    )
    helping = {plugin.plugin.name: plugin.plugin for plugin in plugins if _preempts(plugin.plugin)}
    return Profile(
        name,
        plugins,
        honors_gates=points.has("preEnqueue", "SchedulingGates"),
        preempts=points.has("postFilter", "DefaultPreemption"),
        preempting=tuple(
            helping[point] for point in points.points["postFilter"] if point in helping
        ),
    )


def _preempts(plugin: Plugin) -> bool:
    return type(plugin).victims is not Plugin.victims
