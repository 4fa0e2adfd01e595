"""KubeSchedulerConfiguration v1 as it is written, with Kubernetes' names and bounds. No IO."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import force_setattr

from koord_scheduler.arguments.fields import (
    Float32,
    Int32,
    Int64,
    NotNegative,
    PerCent,
    Positive,
    Seconds,
    Strict,
)

API_VERSION = "kubescheduler.config.k8s.io/v1"


class PluginItem(Strict, frozen=True):
    """A plugin in a list; a weight of 0 is as none."""

    name: str = ""
    weight: NotNegative = 0


class DisabledPlugin(Strict, frozen=True):
    """A default plugin that is not wanted; its weight means nothing."""

    name: str = ""
    weight: Int32 = 0

    def __post_init__(self) -> None:
        force_setattr(self, "weight", 0)


class PluginSet(Strict, frozen=True):
    """Plugins that are added at an extension point, and default ones that are not wanted there."""

    enabled: tuple[PluginItem, ...] = ()
    disabled: tuple[DisabledPlugin, ...] = ()


class PluginSets(Strict, frozen=True):
    """The plugins of a profile by extension point."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def by_point(self) -> dict[str, PluginSet]:
        """The sets by the names that their fields have in the document."""
        fields = msgspec.structs.fields(type(self))
        return {field.encode_name: getattr(self, field.name) for field in fields}


class PluginConfig(Strict, frozen=True):
    """The arguments of a plugin, to be read by their own type."""

    name: str = ""
    args: Any = None


class KubeSchedulerProfile(Strict, frozen=True):
    """Placement of the pods of one scheduler name; a single profile needs no name."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: PerCent | None = None
    plugins: PluginSets = PluginSets()
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElectionConfiguration(Strict, frozen=True):
    """Election of the scheduler that places pods; durations are as Go writes them."""

    leader_elect: bool = True
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnectionConfiguration(Strict, frozen=True):
    """Access to the API server and its rate limit; 0 means the default."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: Float32 = 0.0
    burst: NotNegative = 0


class ExtenderManagedResource(Strict, frozen=True):
    """An extended resource that an extender sees to; the scheduler may have to ignore it."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(Strict, frozen=True):
    """Authentication between an extender and the scheduler: PEM files, or their contents."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderConfiguration(Strict, frozen=True):
    """Another program that is asked about pods; it is not asked for a verb that is empty."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig = ExtenderTLSConfig()
    http_timeout: str = "0s"
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(Strict, frozen=True):
    """The document. Contention profiling and content types are read and have no effect."""

    api_version: str = ""
    kind: str = ""
    parallelism: Positive = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: PerCent = 0
    pod_initial_backoff_seconds: Seconds = 1
    pod_max_backoff_seconds: Seconds = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[ExtenderConfiguration, ...] = ()
    delay_cache_until_active: bool = False
