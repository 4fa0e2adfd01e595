"""DeschedulerPolicy v1alpha2 of the upstream descheduler, as a configuration of ours. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from koord_scheduler.arguments.fields import NotNegative, Strict
from koord_scheduler.arguments.problems import convert, problem, refuse_if
from koord_scheduler.config.component_config import PluginConfig

from koord_descheduler.config.component_config import API_VERSION, KIND

POLICY_KIND = "DeschedulerPolicy"
_EVICTOR = "DefaultEvictor"
_METRICS = "KubernetesMetrics"


class PolicyPlugins(Strict, frozen=True):
    """Names of plugins of an extension point."""

    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()


class PolicyPoints(Strict, frozen=True):
    """The plugins of a profile; upstream documents ``preEvictionFilter``, and reads the other."""

    deschedule: PolicyPlugins = PolicyPlugins()
    balance: PolicyPlugins = PolicyPlugins()
    filter: PolicyPlugins = PolicyPlugins()
    preevictionfilter: PolicyPlugins = PolicyPlugins()
    pre_eviction_filter: PolicyPlugins = PolicyPlugins()
    presort: PolicyPlugins = PolicyPlugins()
    sort: PolicyPlugins = PolicyPlugins()


class PolicyProfile(Strict, frozen=True):
    """A profile."""

    name: str = ""
    plugin_config: tuple[PluginConfig, ...] = ()
    plugins: PolicyPoints = PolicyPoints()


class MetricsCollector(Strict, frozen=True):
    """Collection of metrics by upstream itself."""

    enabled: bool = False


class MetricsProvider(Strict, frozen=True):
    """A source of usage."""

    source: str = ""
    prometheus: dict[str, Any] | None = None


class DeschedulerPolicy(Strict, frozen=True):
    """The document."""

    api_version: str = ""
    kind: str = ""
    profiles: tuple[PolicyProfile, ...] = ()
    node_selector: str | None = None
    max_no_of_pods_to_evict_per_node: NotNegative | None = None
    max_no_of_pods_to_evict_per_namespace: NotNegative | None = None
    max_no_of_pods_to_evict_total: NotNegative | None = None
    grace_period_seconds: NotNegative | None = None
    eviction_failure_event_notification: bool = False
    metrics_collector: MetricsCollector = MetricsCollector()
    metrics_providers: tuple[MetricsProvider, ...] = ()


def translated_policy(document: Mapping[str, Any]) -> dict[str, Any]:
    """A DeschedulerConfiguration that means the same as a policy.

    Upstream's ``evictionFailureEventNotification`` is always on: a pod's page says what failed.
    NodeMetrics take the place of its metrics collector, and of Kubernetes' metrics.

    Raises:
        SchedulerConfigError: it is not a policy, or cannot be honoured.
    """
    given = convert(document, DeschedulerPolicy, of=f"{POLICY_KIND} v1alpha2")
    refuse_if(_problems(given))
    limits = ("maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace")
    same = (*limits, "maxNoOfPodsToEvictTotal", "nodeSelector", "gracePeriodSeconds")
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        **{name: document[name] for name in same if name in document},
        "profiles": [_profile(profile) for profile in given.profiles],
    }


def _profile(given: PolicyProfile) -> dict[str, Any]:
    points = given.plugins
    before = (points.preevictionfilter, points.pre_eviction_filter)
    filters = [name for point in (points.filter, *before) for name in point.enabled]
    enabled = {
        "deschedule": points.deschedule.enabled,
        "balance": points.balance.enabled,
        "filter": dict.fromkeys([_EVICTOR, *filters]),
        "evict": [_EVICTOR],
    }
    return {
        "name": given.name,
        "pluginConfig": [
            {"name": config.name, "args": config.args or {}} for config in given.plugin_config
        ],
        "plugins": {
            point: {"enabled": [{"name": name} for name in names], "disabled": [{"name": "*"}]}
            for point, names in enabled.items()
        },
    }


def _problems(given: DeschedulerPolicy) -> Iterator[str]:
    for place, provider in enumerate(given.metrics_providers):
        if provider.source != _METRICS:
            at, expected = f"metricsProviders[{place}].source", f"{_METRICS}: that of NodeMetrics"
            yield problem(at, provider.source, expected)
    for place, profile in enumerate(given.profiles):
        for point, names in msgspec.to_builtins(profile.plugins).items():
            at = f"profiles[{place}].plugins.{point}"
            if names["enabled"] and point in ("presort", "sort"):
                expected = "nothing: rounds order pods themselves"
                yield problem(f"{at}.enabled", ", ".join(names["enabled"]), expected)
            if names["disabled"]:
                expected = "nothing: upstream does not read it either"
                yield problem(f"{at}.disabled", ", ".join(names["disabled"]), expected)
