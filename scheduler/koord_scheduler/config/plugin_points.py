"""Plugins of a profile at each extension point, as kube-scheduler finds them. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from koord_scheduler.arguments.problems import problem, refuse_if
from koord_scheduler.config.component_config import PluginItem, PluginSet, PluginSets
from koord_scheduler.config.known_plugins import DEFAULT_PLUGINS, extension_points

MULTI_POINT = "multiPoint"
ALL = "*"


@dataclass(frozen=True)
class PluginPoints:
    """``points`` has the names of plugins in the order in which they act, by extension point.

    ``weights`` are those of the plugins that score.
    """

    points: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, int]

    def has(self, point: str, name: str) -> bool:
        """True if a plugin acts at an extension point."""
        return name in self.points[point]

    def names(self) -> set[str]:
        """The plugins that act anywhere."""
        return {name for names in self.points.values() for name in names}


def plugin_points(plugins: PluginSets, path: str) -> PluginPoints:
    """The plugins of a profile: the default ones, changed as its ``plugins`` say.

    All names have to be known already; ``path`` is that of ``plugins``.

    Raises:
        SchedulerConfigError: kube-scheduler would not start with them.
    """
    sets = plugins.by_point()
    everywhere = _merged(DEFAULT_PLUGINS, sets.pop(MULTI_POINT))
    refuse_if(_own_problems(sets, path))
    points = {point: _expanded(point, one, everywhere) for point, one in sets.items()}
    refuse_if(_problems(points, path))
    weights: dict[str, int] = {}
    for one in (*sets["score"].enabled, *everywhere):
        if one.name in points["score"]:
            weights.setdefault(one.name, one.weight or 1)
    return PluginPoints({point: tuple(names) for point, names in points.items()}, weights)


def _merged(defaults: Sequence[PluginItem], own: PluginSet) -> list[PluginItem]:
    """Default plugins less the disabled ones, those that are named again as they are named there.

    Further ones follow. Of a name that is there twice the last one replaces the default one.
    """
    disabled = {one.name for one in own.disabled}
    last = {one.name: place for place, one in enumerate(own.enabled)}
    left = [default for default in defaults if not disabled & {default.name, ALL}]
    merged = [own.enabled[last[one.name]] if one.name in last else one for one in left]
    replacing = {last.get(one.name) for one in left}
    return merged + [one for place, one in enumerate(own.enabled) if place not in replacing]


def _own_problems(sets: Mapping[str, PluginSet], path: str) -> Iterator[str]:
    for point, own in sets.items():
        names: set[str] = set()
        for place, one in enumerate(own.enabled):
            at = f"{path}.{point}.enabled[{place}].name"
            if point not in extension_points(one.name):
                expected = f"a plugin that acts there; it does at {_listed(one.name)}"
                yield problem(at, one.name, expected)
            if one.name in names:
                yield problem(at, one.name, "each plugin once")
            names.add(one.name)


def _listed(name: str) -> str:
    return ", ".join(extension_points(name))


def _expanded(point: str, own: PluginSet, everywhere: Sequence[PluginItem]) -> list[str]:
    """First those that are named for the point and everywhere, then the others of either."""
    here = [one.name for one in own.enabled]
    disabled = {one.name for one in own.disabled}
    if ALL in disabled:
        return here
    acting = [
        one.name
        for one in everywhere
        if point in extension_points(one.name) and one.name not in disabled
    ]
    first = [name for name in here if name in acting]
    others = [name for name in acting if name not in here]
    return [*first, *others, *(name for name in here if name not in first)]


def _problems(points: Mapping[str, Sequence[str]], path: str) -> Iterator[str]:
    for names in points.values():
        for name in sorted({one for one in names if names.count(one) > 1}):
            yield problem(f"{path}.{MULTI_POINT}.enabled", name, "each plugin once")
    for point, name in (("queueSort", "PrioritySort"), ("bind", "DefaultBinder")):
        if not points[point]:
            yield f"{path}.{point}: no plugin is enabled; enable {name} here or at {MULTI_POINT}"
