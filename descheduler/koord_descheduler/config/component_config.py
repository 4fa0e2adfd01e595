"""DeschedulerConfiguration v1alpha2 as it is written, with Koordinator's names. No IO."""

from __future__ import annotations

from typing import Any

import msgspec
from koord_scheduler.arguments.fields import NotNegative, Positive, Strict
from koord_scheduler.config.component_config import (
    ClientConnectionConfiguration,
    LeaderElectionConfiguration,
    PluginConfig,
)

API_VERSION = "descheduler/v1alpha2"
KIND = "DeschedulerConfiguration"
DEFAULT_NAME = "koord-descheduler"


class PluginName(Strict, frozen=True):
    """A plugin in a list."""

    name: str = ""


class EnabledPlugins(Strict, frozen=True):
    """Plugins that are added at an extension point, and default ones that are not wanted there."""

    enabled: tuple[PluginName, ...] = ()
    disabled: tuple[PluginName, ...] = ()


class ProfilePlugins(Strict, frozen=True):
    """The plugins of a profile by extension point."""

    deschedule: EnabledPlugins = EnabledPlugins()
    balance: EnabledPlugins = EnabledPlugins()
    evict: EnabledPlugins = EnabledPlugins()
    filter: EnabledPlugins = EnabledPlugins()


class ProfileConfiguration(Strict, frozen=True):
    """A profile; a single one needs no name. ``node_selector`` is a label selector."""

    name: str = ""
    node_selector: dict[str, Any] | None = None
    plugins: ProfilePlugins = ProfilePlugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class MoveWindow(Strict, frozen=True):
    """At most ``max_moves`` a round, for ``duration`` from each time of ``schedule`` in UTC."""

    schedule: str = ""
    duration: str = ""
    max_moves: NotNegative = 0


class DeschedulerLeaderElection(LeaderElectionConfiguration, frozen=True):
    """Election of the descheduler that evicts."""

    resource_name: str = DEFAULT_NAME
    resource_namespace: str = "koordinator-system"


class DeschedulerConfiguration(Strict, frozen=True):
    """The document; addresses, profiling and content types are read and have no effect.

    ``node_selector`` is a label selector, or the text of one. ``grace_period_seconds`` is
    upstream's: the time that pods have to end; ``None``: what they say themselves.
    The limit of workloads, the pace and ``move_windows`` are ours.
    """

    api_version: str = ""
    kind: str = ""
    leader_election: DeschedulerLeaderElection = DeschedulerLeaderElection()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    healthz_bind_address: str | None = None
    metrics_bind_address: str | None = None
    descheduling_interval: str = "0s"
    dry_run: bool = False
    profiles: tuple[ProfileConfiguration, ...] = ()
    node_selector: dict[str, Any] | str | None = None
    grace_period_seconds: NotNegative | None = None
    max_no_of_pods_to_evict_per_node: NotNegative | None = None
    max_no_of_pods_to_evict_per_namespace: NotNegative | None = None
    max_no_of_pods_to_evict_per_workload: NotNegative | None = None
    max_no_of_pods_to_evict_total: NotNegative | None = None
    evict_qps: float | str | None = msgspec.field(default=None, name="evictQPS")
    evict_burst: Positive | None = None
    move_windows: tuple[MoveWindow, ...] = ()
