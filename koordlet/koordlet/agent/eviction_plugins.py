"""The host of eviction plugins, as the settings and the NodeSLO want it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial

from koord_kube.protocol.resources import PODS
from koord_kube.protocol.selectors import field_is

from koordlet.agent.states_informer import StatesInformer
from koordlet.metrics_advisor.collector_runner import LatestStore
from koordlet.metrics_advisor.contract.collector import Samples
from koordlet.plugin_watcher.watcher import PluginWatcher
from koordlet.qos_manager.core.settings import parse_settings
from koordlet.qos_manager.core.strategy import PodView, Strategy, StrategyMode
from koordlet.qos_manager.eviction.claims.plugin_claims import offered
from koordlet.qos_manager.eviction.plugins.core.answers import (
    PluginAnswers,
    conditions_in_force,
)
from koordlet.qos_manager.eviction.plugins.core.pods import PROTOBUF
from koordlet.qos_manager.eviction.plugins.host import KIND, VERSIONS, EvictionPluginHost
from koordlet.qos_manager.eviction.plugins.pod_messages import MOST_LIST, PodMessages
from koordlet.qos_manager.eviction.policy.guard import own_names
from koordlet.states_informer.node_view_builder import NodeViewBuilder
from koordlet.states_informer.pod_informer import PodInformer
from koordlet.states_informer.state.pod_inventory import PodRecord


def open_plugin_host(
    strategy: Strategy,
    watcher: PluginWatcher,
    node: str,
    pods: PodInformer,
    views: NodeViewBuilder,
    newest: LatestStore,
    cluster: StatesInformer | None,
    environ: Mapping[str, str],
) -> EvictionPluginHost:
    """Be ready to ask plugins for what this strategy claims."""
    read_list = None
    if cluster is not None:
        selected = field_is("spec.nodeName", cluster.name)
        read_list = partial(cluster.client.encoded_list, PODS, selected, PROTOBUF, MOST_LIST)
    host = EvictionPluginHost(
        partial(_offer, strategy, pods, views, own_names(environ)),
        PodMessages(node, read_list),
        partial(_keep, strategy, views, newest),
    )
    watcher.follow(KIND, VERSIONS, host.follow)
    return host


def _keep(
    strategy: Strategy, views: NodeViewBuilder, newest: LatestStore, found: PluginAnswers
) -> None:
    """Have answers for the strategy, and conditions of plugins that are on for the report."""

    def is_on(plugin: str) -> bool:
        return {settings.mode, settings.settings.mode(plugin)} == {StrategyMode.ON}

    settings = parse_settings(strategy, views.current.slo)
    infos = found, conditions_in_force(found, is_on)
    newest.keep(Samples(infos=infos), time.monotonic())


def _offer(
    strategy: Strategy,
    pods: PodInformer,
    views: NodeViewBuilder,
    own: frozenset[str],
    plugin: str,
) -> Iterable[PodRecord] | None:
    """The pods that a plugin is asked about; ``None``: it is not asked."""
    found = parse_settings(strategy, views.current.slo)
    modes = found.mode, found.settings.mode(plugin)
    if StrategyMode.OFF in modes or not (pods.known and pods.fresh):
        return None
    here = (PodView(record, "") for record in pods.inventory.records())
    return [pod.record for pod in offered(here, plugin, found.settings.priority, own)]
