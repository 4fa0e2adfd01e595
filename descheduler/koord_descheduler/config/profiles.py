"""A profile of the configuration, made what a round runs. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from koord_model import label_selector
from koord_model.label_selector import LabelSelector
from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.problems import SchedulerConfigError, convert, problem, refuse_if

from koord_descheduler.config.component_config import EnabledPlugins, ProfileConfiguration
from koord_descheduler.config.plugin_catalogue import Plugins, unknown_plugin
from koord_descheduler.framework.round import DeschedulerProfile
from koord_descheduler.plugin import DeschedulerPlugin

DEFAULT_EVICTOR = "MigrationController"
_ALL = "*"
_POINTS = ("deschedule", "balance", "evict", "filter")
_DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "evict": (DEFAULT_EVICTOR,),
    "filter": (DEFAULT_EVICTOR,),
}


@dataclass(frozen=True)
class ProfileWithEvictor:
    """A profile, and the plugin that carries out its moves, with its arguments.

    ``names`` are those of its plugins by extension point, ``args`` theirs by plugin.
    """

    profile: DeschedulerProfile
    evictor: DeschedulerPlugin
    names: Mapping[str, tuple[str, ...]]
    args: Mapping[str, PluginArgs]


def configured_profile(
    given: ProfileConfiguration, path: str, known: Plugins, nodes: LabelSelector | None
) -> ProfileWithEvictor:
    """A profile; ``nodes`` are those of the whole configuration (``None``: all).

    Raises:
        SchedulerConfigError: it cannot be honoured; ``path`` is where it is.
    """
    refuse_if(_unknown(given, path, known))
    names = {point: _merged(point, getattr(given.plugins, point)) for point in _POINTS}
    refuse_if(_unfit(names, f"{path}.plugins", known))
    used = {name for some in names.values() for name in some}
    args = _args(given, path, known, used)
    made = {name: known[name](args[name]) for name in used}
    own = selector(given.node_selector, f"{path}.nodeSelector")

    def selects(labels: Mapping[str, str]) -> bool:
        found = dict(labels)
        return all(some is None or some.matches(found) for some in (own, nodes))

    deschedule, balance, filters = (
        [made[name] for name in names[point]] for point in ("deschedule", "balance", "filter")
    )
    profile = DeschedulerProfile(given.name, deschedule, balance, filters, selects)
    return ProfileWithEvictor(profile, made[names["evict"][0]], names, args)


def selector(given: Mapping[str, Any] | str | None, path: str) -> LabelSelector | None:
    """The label selector in a document or a text; ``None``: there is none.

    Raises:
        SchedulerConfigError: it is not valid.
    """
    if given is None:
        return None
    try:
        if isinstance(given, str):
            return label_selector.parse_text(given, path)
        return label_selector.parse(dict(given), path)
    except ValueError as error:
        raise SchedulerConfigError([str(error)]) from None


def _merged(point: str, own: EnabledPlugins) -> tuple[str, ...]:
    """The default plugins that are not disabled, in place, then the others that are enabled."""
    disabled = {plugin.name for plugin in own.disabled}
    enabled = [plugin.name for plugin in own.enabled]
    defaults = [] if _ALL in disabled else [
        name for name in _DEFAULTS.get(point, ()) if name not in disabled
    ]  # fmt: skip
    return tuple(dict.fromkeys([*defaults, *enabled]))


def _unknown(given: ProfileConfiguration, path: str, known: Plugins) -> Iterator[str]:
    for point in _POINTS:
        own: EnabledPlugins = getattr(given.plugins, point)
        for kind, plugins in (("enabled", own.enabled), ("disabled", own.disabled)):
            for place, plugin in enumerate(plugins):
                if plugin.name not in known and (kind == "enabled" or plugin.name != _ALL):
                    at = f"{path}.plugins.{point}.{kind}[{place}].name"
                    yield problem(at, plugin.name, unknown_plugin(plugin.name, known))
    named: set[str] = set()
    for place, config in enumerate(given.plugin_config):
        at = f"{path}.pluginConfig[{place}].name"
        if config.name not in known:
            yield problem(at, config.name, unknown_plugin(config.name, known))
        elif config.name in named:
            yield problem(at, config.name, "each plugin once")
        named.add(config.name)


def _unfit(names: Mapping[str, tuple[str, ...]], path: str, known: Plugins) -> Iterator[str]:
    evictors = names["evict"]
    if len(evictors) != 1:
        expected = "exactly one plugin; disable MigrationController to have another"
        yield problem(f"{path}.evict", ", ".join(evictors), expected)
    for name in evictors:
        if not known[name].evicts:
            able = ", ".join(sorted(other for other, plugin in known.items() if plugin.evicts))
            yield problem(f"{path}.evict", name, f"one of {able}")
    for point, method in (("deschedule", "deschedule"), ("balance", "balance")):
        for name in names[point]:
            if getattr(known[name], method) is getattr(DeschedulerPlugin, method):
                yield problem(f"{path}.{point}", name, f"a plugin that can {point}")


def _args(
    given: ProfileConfiguration, path: str, known: Plugins, names: Iterable[str]
) -> dict[str, PluginArgs]:
    """The arguments of all plugins that are enabled or configured, checked."""
    found = {name: known[name].Args() for name in sorted(names)}
    problems: list[str] = []
    for place, config in enumerate(given.plugin_config):
        at = f"{path}.pluginConfig[{place}].args"
        try:
            about = f"the arguments of {config.name}"
            args = convert(config.args or {}, known[config.name].Args, at, about)
        except SchedulerConfigError as error:
            problems += error.problems
            continue
        problems += args.problems(at)
        found[config.name] = args
    refuse_if(problems)
    return found
