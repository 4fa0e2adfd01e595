"""The ``pluginConfig`` of a profile, read and checked. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec
from koord_model import duration

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.problems import SchedulerConfigError, convert, problem, refuse_if
from koord_scheduler.config.builders import support
from koord_scheduler.config.component_config import API_VERSION, PluginConfig
from koord_scheduler.config.known_plugins import EXTENSION_POINTS, Support
from koord_scheduler.config.plugin_args import AllPluginArgs
from koord_scheduler.plugins.dynamic_resources.args import DynamicResourcesArgs

_FIELDS = {one.encode_name: one for one in msgspec.structs.fields(AllPluginArgs)}


def unknown_plugin(name: str, path: str, added: Collection[str] = ()) -> Iterator[str]:
    """Return why a plugin cannot be used; nothing for Kubernetes' own and added ones."""
    if name not in EXTENSION_POINTS and name not in added:
        known = [*EXTENSION_POINTS, *added]
        by_lower = {one.lower(): one for one in known}
        near = get_close_matches(name.lower(), by_lower, 1)
        hint = f"did you mean {by_lower[near[0]]}?" if near else f"known are {', '.join(known)}"
        yield problem(path, name, f"a plugin of Kubernetes 1.36 or of Koordinator; {hint}")


def plugin_args(configs: Sequence[PluginConfig], path: str) -> AllPluginArgs:
    """The arguments of all plugins of a profile; ``path`` is that of its ``pluginConfig``.

    ``name_problems`` has to find none. Those of a plugin that takes no arguments are ignored, as
    kube-scheduler does.

    Raises:
        SchedulerConfigError: some cannot be used.
    """
    found: dict[str, PluginArgs] = {}
    for place, config in enumerate(configs):
        if config.name in _FIELDS and config.args is not None:
            found[_FIELDS[config.name].name] = _args(config, f"{path}[{place}].args")
    return AllPluginArgs(**found)  # type: ignore[arg-type]


def name_problems(
    configs: Sequence[PluginConfig], path: str, added: Collection[str]
) -> Iterator[str]:
    """Return why arguments cannot be those of a plugin."""
    names: set[str] = set()
    for place, config in enumerate(configs):
        at = f"{path}[{place}].name"
        yield from unknown_plugin(config.name, at, added)
        if config.name in names:
            yield problem(at, config.name, "the arguments of each plugin once")
        names.add(config.name)


def _args(config: PluginConfig, path: str) -> PluginArgs:
    field = _FIELDS[config.name]
    args: PluginArgs = convert(config.args, field.type, path)
    refuse_if(_kind_problems(config.name, config.args, path))
    refuse_if(args.problems(path))
    if support(config.name) is Support.NOT_BUILT and _comparable(args) != _comparable(
        field.default
    ):
        raise SchedulerConfigError(
            [problem(path, {}, f"the defaults, as {config.name} is not built yet: remove them")]
        )
    return args


def _kind_problems(name: str, args: Mapping[str, Any], path: str) -> Iterator[str]:
    for field, expected in (("apiVersion", API_VERSION), ("kind", f"{name}Args")):
        if args.get(field, "") not in ("", expected):
            yield problem(f"{path}.{field}", args[field], expected)


def _comparable(args: PluginArgs) -> PluginArgs:
    """Arguments without what makes no difference, to be compared."""
    plain = msgspec.structs.replace(args, api_version="", kind="")
    if not isinstance(plain, DynamicResourcesArgs):
        return plain
    times = (plain.filter_timeout, plain.binding_timeout)
    filtering, binding = (duration.written(duration.seconds(time)) for time in times)
    return msgspec.structs.replace(plain, filter_timeout=filtering, binding_timeout=binding)
