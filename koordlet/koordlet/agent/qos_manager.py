"""The deciding side of koordlet, put together from the settings: strategies, evictions, why."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from koord_host.kernel_files.interface import FileReader
from koord_host.knobs.layout import Layout
from koord_host.planning.arbiter import ArbitratedValue
from koord_host.planning.desired_values import Target
from koord_kube.protocol.api import Object
from koord_model.node_slo import NodeSLO
from prometheus_client import CollectorRegistry

from koordlet.agent.config import KoordletSettings, node_name
from koordlet.agent.eviction import open_evictor
from koordlet.agent.eviction_plugins import open_plugin_host
from koordlet.agent.metrics_advisor import MetricsAdvisor
from koordlet.agent.runtime_hooks import ManagedNode
from koordlet.agent.states_informer import StatesInformer
from koordlet.http_api.cgroups import cgroup_documents
from koordlet.http_api.documents.node import Document
from koordlet.http_api.documents.why import DecisionSources
from koordlet.http_api.strategy_metrics import StrategyMetrics
from koordlet.plugin_watcher.watcher import PluginWatcher
from koordlet.qos_manager.core.decision_log import DecisionLog
from koordlet.qos_manager.core.settings import settings_problems
from koordlet.qos_manager.core.strategy_runner import StrategyRunner
from koordlet.qos_manager.eviction.metrics import EvictionMetrics
from koordlet.qos_manager.plan_queue import NodePlan
from koordlet.qos_manager.strategy_loop import StrategyLoop
from koordlet.qos_manager.strategy_table import select_enabled
from koordlet.qos_manager.view_builder import StrategyViewBuilder, ViewSources
from koordlet.states_informer.node_view_builder import NodeViewBuilder
from koordlet.states_informer.pod_informer import PodInformer

Loop = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class QoSManager:
    """Decisions on this node; ``loops`` run until cancelled, ``decided`` is for people."""

    decider: StrategyLoop
    decided: DecisionSources
    loops: tuple[Loop, ...]
    register: Callable[[CollectorRegistry], None]
    """Has what is decided in ``/metrics``."""
    settings_problems: Callable[[NodeSLO], tuple[str, ...]]
    evicted: Callable[[], int]
    """Pods that were evicted since the start."""


def open_qos_manager(
    settings: KoordletSettings,
    gates: Mapping[str, bool],
    layout: Layout,
    reader: FileReader,
    pods: PodInformer,
    views: NodeViewBuilder,
    observing: MetricsAdvisor,
    node: ManagedNode | None,
    cluster: StatesInformer | None,
    environ: Mapping[str, str],
    plugins: PluginWatcher | None = None,
) -> QoSManager:
    """Be ready to decide; without a ``node`` to write to all strategies are but shown.

    ``plugins`` are those of others that register; ``None``: none is asked.
    """
    strategies, off = select_enabled(asdict(settings), gates)
    evictor = open_evictor(settings, cluster, environ)
    rounds = StrategyRunner(strategies, time.thread_time, shown_only=node is None)
    decisions = DecisionLog()
    seen = ViewSources(
        layout,
        reader,
        pods=pods.inventory.records,
        pods_known=lambda: pods.known,
        view=lambda: views.current,
        newest=observing.observer.newest,
        cache=observing.observer.cache,
        node=_no_node if cluster is None else cluster.node,
        set_aside=lambda: views.set_aside(),
        base=_nothing_known if node is None else node.plan_queue.base,
        evicting=evictor.evicting,
        pods_fresh=lambda: pods.fresh,
    )
    carry = None if node is None else partial(submit_plan, node)
    decider = StrategyLoop(rounds, off, StrategyViewBuilder(seen).build, decisions, evictor, carry)
    decided = DecisionSources(decisions, decider.states, lambda: decider.signals)
    standing = _nothing_stands if node is None else node.plan_queue.standing
    held = lambda record: cgroup_documents(record, layout, reader, standing)  # noqa: E731
    decided = replace(decided, cgroups=held)
    if node is not None:
        decided = replace(decided, desired=partial(_desired_values, node))

    def register(registry: CollectorRegistry) -> None:
        registry.register(StrategyMetrics(observing.observed, decided))
        going = lambda: len(evictor.evicting())  # noqa: E731 - nothing to name
        registry.register(EvictionMetrics(observing.observed.node, evictor.counts, going))

    loops: list[Loop] = [decider.run, evictor.run]
    asking = next((one for one in strategies if one.gate == "EvictionPlugins"), None)
    if asking is not None and plugins is not None:
        name, newest = node_name(settings, environ), observing.observer.newest
        host = open_plugin_host(asking, plugins, name, pods, views, newest, cluster, environ)
        loops.append(host.run)
    by_name = {strategy.name: strategy for strategy in strategies}
    evicted = lambda: sum(evictor.counts.by_rule.values())  # noqa: E731 - nothing to name
    problems = partial(settings_problems, by_name)
    return QoSManager(decider, decided, tuple(loops), register, problems, evicted)


def submit_plan(node: ManagedNode, wanted: NodePlan) -> None:
    """Have the node's writer do what strategies want, ahead of all else."""
    node.plan_queue.put(wanted)
    node.reconcile_loop.hurry()


def _desired_values(node: ManagedNode, group: str) -> list[Document]:
    """Describe the arbitrated values of a cgroup's knobs for people."""
    return [
        {
            "knob": knob,
            "value": state.value,
            "owner": state.owner,
            "why": state.why,
            "conflict": str(state.conflict) if state.conflict else "",
        }
        for knob, state in node.plan_queue.standing(group)
    ]


def _nothing_stands(_: str) -> list[tuple[str, ArbitratedValue]]:
    """Return the desired values of a cgroup where nothing is written: none."""
    return []


def _nothing_known(_: Target) -> None:
    """Return a value without strategies where nothing was ever written: none."""


def _no_node() -> Object | None:
    return None
