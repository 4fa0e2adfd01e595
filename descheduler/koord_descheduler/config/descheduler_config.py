"""The descheduler's configuration, from the text of its file. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml
from koord_model import duration
from koord_scheduler.arguments.problems import SchedulerConfigError, convert, problem, refuse_if
from koord_scheduler.config.document import parse_document, without_nulls
from koord_scheduler.config.leader_election import (
    LeaderElectionSettings,
    leader_election_settings,
)
from msgspec.structs import replace

from koord_descheduler.config.component_config import (
    API_VERSION,
    DEFAULT_NAME,
    KIND,
    DeschedulerConfiguration,
    ProfileConfiguration,
)
from koord_descheduler.config.move_windows import window_limits
from koord_descheduler.config.plugin_catalogue import Plugins, own_plugins
from koord_descheduler.config.profiles import ProfileWithEvictor, configured_profile, selector
from koord_descheduler.config.upstream_policy import POLICY_KIND, translated_policy
from koord_descheduler.planner.budgets import (
    MoveLimit,
    MovePace,
    of_all,
    of_namespace,
    of_node,
    of_workload,
    per_second,
)


@dataclass(frozen=True)
class DeschedulerConfig:
    """All that the configuration says; ``interval`` is in seconds, 0: one round alone.

    ``without_effect`` has the fields that were set, and mean nothing here.
    """

    profiles: tuple[ProfileWithEvictor, ...]
    interval: float
    dry_run: bool
    limits: tuple[MoveLimit, ...]
    pace: MovePace | None
    leader_election: LeaderElectionSettings
    kubeconfig: str
    grace_seconds: int | None
    without_effect: tuple[str, ...]
    document: DeschedulerConfiguration


def default_descheduler_config() -> DeschedulerConfig:
    """Return the configuration that holds without a file."""
    return descheduler_config({"apiVersion": API_VERSION, "kind": KIND})


def read_descheduler_config(text: str, added: Plugins | None = None) -> DeschedulerConfig:
    """The configuration in a YAML or JSON text; ``added`` are plugins of others.

    Raises:
        SchedulerConfigError: it cannot be honoured; a line for each error.
    """
    return descheduler_config(parse_document(text), added)


def descheduler_config(
    document: Mapping[str, Any], added: Plugins | None = None
) -> DeschedulerConfig:
    """The configuration in a document, of ours or upstream's.

    Raises:
        SchedulerConfigError: as ``read_descheduler_config``.
    """
    if document.get("kind") == POLICY_KIND:
        document = translated_policy(document)
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(field) != expected:
            raise SchedulerConfigError([problem(field, document.get(field), expected)])
    given = convert(document, DeschedulerConfiguration, of=f"{KIND} v1alpha2")
    given = replace(given, profiles=_named(given.profiles or (ProfileConfiguration(),)))
    refuse_if(_name_problems(given.profiles))
    known = {**own_plugins(), **(added or {})}
    nodes = selector(given.node_selector, "nodeSelector")
    return DeschedulerConfig(
        tuple(
            configured_profile(profile, f"profiles[{place}]", known, nodes)
            for place, profile in enumerate(given.profiles)
        ),
        _interval(given.descheduling_interval),
        given.dry_run,
        tuple(_limits(given)),
        _pace(given),
        leader_election_settings(given.leader_election),
        given.client_connection.kubeconfig,
        given.grace_period_seconds,
        tuple(_without_effect(given)),
        given,
    )


def written_config(config: DeschedulerConfig) -> str:
    """The configuration with all defaults, as YAML."""
    document = msgspec.to_builtins(config.document)
    document |= {"apiVersion": API_VERSION, "kind": KIND}
    for profile, configured in zip(document["profiles"], config.profiles, strict=True):
        profile["plugins"] = {
            point: {"enabled": [{"name": name} for name in names], "disabled": [{"name": "*"}]}
            for point, names in configured.names.items()
        }
        profile["pluginConfig"] = [
            {"name": name, "args": msgspec.to_builtins(args)}
            for name, args in configured.args.items()
        ]
    return yaml.safe_dump(without_nulls(document), sort_keys=False)


def _named(profiles: tuple[ProfileConfiguration, ...]) -> tuple[ProfileConfiguration, ...]:
    if len(profiles) == 1 and not profiles[0].name:
        return (replace(profiles[0], name=DEFAULT_NAME),)
    return profiles


def _name_problems(profiles: tuple[ProfileConfiguration, ...]) -> Iterator[str]:
    names: set[str] = set()
    for place, profile in enumerate(profiles):
        at = f"profiles[{place}].name"
        if not profile.name:
            yield problem(at, profile.name, "a name")
        elif profile.name in names:
            yield problem(at, profile.name, "another name than that of the other profiles")
        names.add(profile.name)


def _interval(text: str) -> float:
    try:
        found = 0.0 if text == "0" else duration.seconds(text)
    except ValueError:
        found = -1.0
    if found < 0:
        expected = "a duration like 60s or 5m, 0s for one round alone"
        raise SchedulerConfigError([problem("deschedulingInterval", text, expected)])
    return found


def _limits(given: DeschedulerConfiguration) -> Iterator[MoveLimit]:
    for name, most, of in (
        ("maxNoOfPodsToEvictPerNode", given.max_no_of_pods_to_evict_per_node, of_node),
        (
            "maxNoOfPodsToEvictPerNamespace",
            given.max_no_of_pods_to_evict_per_namespace,
            of_namespace,
        ),
        ("maxNoOfPodsToEvictPerWorkload", given.max_no_of_pods_to_evict_per_workload, of_workload),
        ("maxNoOfPodsToEvictTotal", given.max_no_of_pods_to_evict_total, of_all),
    ):
        if most is not None:
            yield MoveLimit(name, most, of)
    yield from window_limits(given.move_windows)


def _pace(given: DeschedulerConfiguration) -> MovePace | None:
    qps, burst = given.evict_qps, given.evict_burst
    if qps is None:
        refuse_if([problem("evictBurst", burst, "evictQPS with it")] if burst else [])
        return None
    rate = per_second(qps)
    refuse_if([] if rate else [problem("evictQPS", qps, "a number above 0")])
    return MovePace(rate, burst)


def _without_effect(given: DeschedulerConfiguration) -> Iterator[str]:
    """Addresses are flags, and writes are slowed down by the API server's answers alone."""
    for field, value in (
        ("healthzBindAddress", given.healthz_bind_address),
        ("metricsBindAddress", given.metrics_bind_address),
        ("clientConnection.qps", given.client_connection.qps),
        ("clientConnection.burst", given.client_connection.burst),
    ):
        if value:
            yield field
