"""The host of resource plugins, as the settings want it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from koordlet.agent.config import KoordletSettings
from koordlet.agent.runtime_hooks import ManagedNode
from koordlet.plugin_watcher.watcher import PluginWatcher
from koordlet.resource_plugins.allocation_store import NAME, AllocationStore
from koordlet.resource_plugins.core.hints import TopologyPolicy
from koordlet.resource_plugins.host import ResourcePluginHost
from koordlet.resource_plugins.plugins import KIND, VERSIONS, ResourcePlugins
from koordlet.resource_plugins.pod_allocator import AllocationPolicy, PodAllocator
from koordlet.resource_plugins.registration_server import RegistrationServer


def open_resource_plugins(
    settings: KoordletSettings,
    node: ManagedNode,
    watcher: PluginWatcher,
    registry: CollectorRegistry,
) -> ResourcePluginHost:
    """Be ready to ask plugins; allocations of the last run count from now on."""
    path = settings.resource_plugins_socket
    pods, views = node.reconcile_loop.pods, node.views

    def changed() -> None:
        host.wake()
        node.reconcile_loop.wake()

    store = AllocationStore(f"{settings.state_dir}/{NAME}")
    plugins = ResourcePlugins(str(Path(path).parent))
    plugins.recall(store.load())
    policy = AllocationPolicy(
        TopologyPolicy(settings.resource_plugins_topology_policy),
        settings.resource_plugins_topology_scope == "pod",
        settings.resource_plugins_aligned,
        settings.resource_plugins_failure_policy == "Fail",
    )
    allocator = PodAllocator(plugins, store, pods.find, views.numa_nodes, policy, changed)
    server = RegistrationServer(path, plugins.register)
    host = ResourcePluginHost(plugins, store, allocator, server, pods, views.numa_nodes, changed)
    views.allocations = lambda: store.current
    watcher.follow(KIND, VERSIONS, plugins.follow)
    registry.register(ResourcePluginMetrics(plugins, store))
    return host


class ResourcePluginMetrics(Collector):
    """Calls of plugins, and the pods that have something of theirs."""

    def __init__(self, plugins: ResourcePlugins, store: AllocationStore) -> None:
        self._plugins = plugins
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """All that is known now."""
        calls = CounterMetricFamily(
            "koordlet_resource_plugin_calls",
            "Calls of resource plugins, by what came of them.",
            labels=["resource", "call", "outcome"],
        )
        for labels, number in sorted(self._plugins.calls.copy().items()):
            calls.add_metric(labels, number)
        yield calls
        yield GaugeMetricFamily(
            "koordlet_resource_plugin_pods",
            "Pods with an allocation by resource plugins.",
            len(self._store.current),
        )
