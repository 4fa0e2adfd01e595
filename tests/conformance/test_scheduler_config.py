"""Configurations of the scheduler, against what kube-scheduler makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import yaml
from koord_model import duration
from koord_scheduler.arguments.problems import SchedulerConfigError
from koord_scheduler.config.builders import BUILDERS
from koord_scheduler.config.known_plugins import CORE, EXTENSION_POINTS
from koord_scheduler.config.plugin_args import AllPluginArgs
from koord_scheduler.config.profiles import ConfiguredProfile
from koord_scheduler.config.scheduler_config import SchedulerConfig, read_scheduler_config
from koord_scheduler.objects.spread import SpreadConstraint, spread_constraint

from tests.conformance.vectors import Fields, Object, Vector, leaves, replay

REFUSED: Fields = {"accepted": False}
ARGS = {one.encode_name: one.name for one in msgspec.structs.fields(AllPluginArgs)}


def ours(vector: Vector) -> Fields:
    try:
        config = read_scheduler_config(vector.given["text"])
    except SchedulerConfigError:
        return REFUSED
    profiles = [profile_fields(one) for one in config.profiles]
    return leaves({"accepted": True, "settings": settings_fields(config), "profiles": profiles})


def settings_fields(config: SchedulerConfig) -> Object:
    elect = config.leader_election
    durations = elect.lease_duration, elect.renew_deadline, elect.retry_period
    return {
        "leaderElect": elect.leader_elect,
        "durations": [round(one, 6) for one in durations],
        "resource": f"{elect.resource_namespace}/{elect.resource_name}",
        "client": [config.kubeconfig, config.qps, config.burst],
        "backoff": [config.pod_initial_backoff, config.pod_max_backoff],
        "parallelism": config.parallelism,
        "delayCacheUntilActive": config.delay_cache_until_active,
    }


def profile_fields(one: ConfiguredProfile) -> Object:
    plugins = one.profile.plugins
    spread = one.args.pod_topology_spread
    is_listed = "PodTopologySpread" in one.points.names() and spread.defaulting_type == "List"
    return {
        "schedulerName": one.profile.scheduler_name,
        "percentageOfNodesToScore": one.profile.percentage_of_nodes_to_score,
        "points": {point: list(names) for point, names in one.points.points.items() if names},
        "weights": one.points.weights,
        "args": {
            name: plain(getattr(one.args, ARGS[name]))
            for name in ARGS
            if name in one.points.names()
        },
        "filters": [enabled.plugin.name for enabled in plugins if enabled.filters],
        "scores": {enabled.plugin.name: enabled.weight for enabled in plugins if enabled.weight},
        "honorsGates": one.profile.honors_gates,
        "preempts": one.profile.preempts,
        "notBuilt": sorted(one.not_built),
        "spread": [as_made(spread_constraint(part)) for part in spread.default_constraints]
        if is_listed
        else None,
    }


def as_made(one: SpreadConstraint) -> str:
    return f"{one.key} {one.max_skew} {one.is_hard}"


def plain(args: Any) -> Any:
    """Arguments without what is empty, and durations in seconds."""
    return tidy({name: one for name, one in msgspec.to_builtins(args).items() if name not in TYPE})


TYPE = ("apiVersion", "kind")


def tidy(value: Any) -> Any:
    if isinstance(value, dict):
        found = {name: tidy(one) for name, one in value.items()}
        times = {name: seconds(found[name]) for name in TIMES & found.keys()}
        return {name: one for name, one in found.items() if one not in (None, "", [], {})} | times
    return [tidy(one) for one in value] if isinstance(value, list | tuple) else value


TIMES = {"filterTimeout", "bindingTimeout"}


def theirs(recorded: Object) -> Fields:
    if "refused" in recorded:
        return REFUSED
    given = recorded["settings"]
    elect, client = given["leaderElection"], given["clientConnection"]
    times = ("leaseDuration", "renewDeadline", "retryPeriod")
    settings = {
        "leaderElect": elect["leaderElect"],
        "durations": [seconds(elect[name]) for name in times],
        "resource": f"{elect['resourceNamespace']}/{elect['resourceName']}",
        "client": [client["kubeconfig"], client["qps"], client["burst"]],
        "backoff": [given["podInitialBackoffSeconds"], given["podMaxBackoffSeconds"]],
        "parallelism": given["parallelism"],
        "delayCacheUntilActive": given["delayCacheUntilActive"],
    }
    profiles = [their_profile(one, given) for one in recorded["profiles"]]
    return leaves({"accepted": True, "settings": settings, "profiles": profiles})


def seconds(text: str) -> float:
    return -duration.seconds(text[1:]) if text.startswith("-") else duration.seconds(text)


def their_profile(one: Object, settings: Object) -> Object:
    """What was recorded, and what follows from it for a scheduler that has some of the plugins."""
    points, percentage = one["points"], one["percentageOfNodesToScore"]
    names = {name for listed in points.values() for name in listed}
    spread = one["args"]["PodTopologySpread"] if "PodTopologySpread" in names else {}
    return {
        "schedulerName": one["schedulerName"],
        "percentageOfNodesToScore": (
            settings["percentageOfNodesToScore"] if percentage is None else percentage
        ),
        "points": points,
        "weights": one["weights"],
        "args": {name: tidy(args) for name, args in one["args"].items() if name in names},
        "filters": [name for name in points.get("filter", ()) if name in BUILDERS],
        "scores": {name: one["weights"][name] for name in one["weights"] if name in BUILDERS},
        "honorsGates": "SchedulingGates" in points.get("preEnqueue", ()),
        "preempts": "DefaultPreemption" in points.get("postFilter", ()),
        "notBuilt": sorted(names - BUILDERS.keys() - CORE),
        "spread": (
            [as_recorded(part) for part in spread.get("defaultConstraints", ())]
            if spread.get("defaultingType") == "List"
            else None
        ),
    }


def as_recorded(part: Object) -> str:
    is_hard = part["whenUnsatisfiable"] == "DoNotSchedule"
    return f"{part['topologyKey']} {part['maxSkew']} {is_hard}"


def document(vector: Vector) -> Any:
    return parsed(vector.given["text"])


@cache
def parsed(text: str) -> Any:
    return next(iter(yaml.safe_load_all(text)))


def every_value(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each value with its name or place, however deep."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, one in items:
        yield name, one
        if isinstance(one, dict | list):
            yield from every_value(one)


def names_in(vector: Vector, *fields: str) -> set[str]:
    """The names of plugins in all fields of these names."""
    found: set[str] = set()
    for name, one in every_value(document(vector)):
        if name in fields:
            found |= {plugin.get("name") or "" for plugin in one or () if plugin is not None}
    return found


def plugins_that_are_unknown(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler ignores arguments of unknown plugins, and unknown ones that are disabled."""
    unknown = names_in(vector, "enabled", "pluginConfig") - EXTENSION_POINTS.keys()
    off = names_in(vector, "disabled") - EXTENSION_POINTS.keys() - {"*"}
    return here == REFUSED and bool(unknown | off)


def plugins_of_koordinator(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler does not know these; to their arguments it pays no heed."""
    named = names_in(vector, "enabled", "pluginConfig")
    return not named.isdisjoint({"LoadAwareScheduling", "Coscheduling"})


def arguments_of_plugins_not_built(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Arguments other than the defaults have no effect yet."""
    defaults = {
        "DynamicResources": {"filterTimeout": "10s", "bindingTimeout": "10m0s"},
    }
    given = names_in(vector, "pluginConfig") & defaults.keys()
    return here == REFUSED and any(
        one["args"].get(name) != defaults[name]
        for name in given
        for one in vector.recorded["profiles"]
    )


def halves_of_plugins(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """In kube-scheduler all pods fail where most plugins filter or score without preparing it."""
    if "accepted" not in there or here != REFUSED:
        return False
    return any(is_half(one["points"]) for one in vector.recorded["profiles"])


def is_half(points: dict[str, list[str]]) -> bool:
    acting = {point: set(points.get(point, ())) & BUILDERS.keys() for point in EVERY_POINT}
    for before, point in (("preFilter", "filter"), ("preScore", "score")):
        preparing = {name for name in BUILDERS if before in EXTENSION_POINTS[name]}
        if acting[point] & preparing - acting[before]:
            return True
    return "NodeAffinity" in acting["preFilter"] - acting["filter"]


EVERY_POINT = ("preFilter", "filter", "preScore", "score")


def weights_below_0(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler takes them where their sum is at no place below 0."""
    values = every_value(document(vector))
    weights = [one for name, one in values if name == "weight" and isinstance(one, int)]
    return here == REFUSED and min(weights, default=0) < 0


def nulls(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """In lists kube-scheduler takes null for an empty value; a duration it refuses."""
    values = list(every_value(document(vector)))
    in_lists = any(one is None for name, one in values if isinstance(name, int))
    return in_lists if here == REFUSED else any(one is None for _, one in values)


def durations_below_0(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler takes them where there is no leader election."""
    durations = [one for name, one in there.items() if name.startswith("settings.durations")]
    return here == REFUSED and min(durations, default=0) < 0


def several_documents(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler ignores all but the first."""
    return here == REFUSED and "\n---\n" in vector.given["text"]


def arguments_without_use(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler does not check those of NodeResourcesFit where that is disabled."""
    if here != REFUSED or "NodeResourcesFit" not in names_in(vector, "pluginConfig"):
        return False
    return any("NodeResourcesFit" not in one["args"] for one in vector.recorded["profiles"])


def test_configurations_mean_what_they_mean_to_kube_scheduler() -> None:
    differences = (
        plugins_that_are_unknown,
        plugins_of_koordinator,
        arguments_of_plugins_not_built,
        halves_of_plugins,
        weights_below_0,
        nulls,
        durations_below_0,
        several_documents,
        arguments_without_use,
    )
    replay("scheduler_config", ours, theirs, differences)
