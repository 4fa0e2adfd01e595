"""The deciding side of koordlet, put together from the settings: strategies, evictions, why."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from koord_host.files import Reader
from koord_host.layout import Layout
from koord_host.wishes import Target
from koord_kube.api import Object
from prometheus_client import CollectorRegistry

from koordlet.cluster import ClusterSide
from koordlet.config import Settings
from koordlet.deciding.carrying import Wanted
from koordlet.deciding.decider import Decider
from koordlet.deciding.decisions import Decisions
from koordlet.deciding.round import Rounds
from koordlet.deciding.table import choose
from koordlet.deciding.viewing import Seen, Views
from koordlet.evicting.evictor import open_evictor
from koordlet.evicting.metrics import EvictionMetrics
from koordlet.node import Node
from koordlet.observing import Observing
from koordlet.pages.node import Document
from koordlet.pages.strategy_metrics import StrategyMetrics
from koordlet.pages.why import Decided
from koordlet.pods import Pods
from koordlet.states.node_view import NodeViews

Loop = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class QoSManager:
    """What decides on this node; ``loops`` run until cancelled, ``decided`` is for people."""

    decider: Decider
    decided: Decided
    loops: tuple[Loop, ...]
    register: Callable[[CollectorRegistry], None]
    """Has what is decided in ``/metrics``."""


def open_qos_manager(
    settings: Settings,
    gates: Mapping[str, bool],
    layout: Layout,
    reader: Reader,
    pods: Pods,
    views: NodeViews,
    observing: Observing,
    node: Node | None,
    cluster: ClusterSide | None,
    environ: Mapping[str, str],
) -> QoSManager:
    """Be ready to decide; without a ``node`` to write to all strategies are but shown."""
    strategies, off = choose(settings, gates)
    evictor = open_evictor(settings, cluster, environ)
    rounds = Rounds(strategies, time.thread_time, shown_only=node is None)
    decisions = Decisions()
    seen = Seen(
        layout,
        reader,
        pods=pods.inventory.records,
        pods_known=lambda: pods.known,
        view=lambda: views.current,
        newest=observing.observer.newest,
        cache=observing.observer.cache,
        node=_no_node if cluster is None else cluster.node,
        set_aside=lambda: views.set_aside(),
        base=_nothing_known if node is None else node.carrier.base,
        evicting=evictor.evicting,
        pods_fresh=lambda: pods.fresh,
    )
    carry = None if node is None else partial(_carry, node)
    decider = Decider(rounds, off, Views(seen).build, decisions, evictor, carry)
    decided = Decided(decisions, decider.states, lambda: decider.signals)
    if node is not None:
        decided = replace(decided, wishes=partial(_wishes, node))

    def register(registry: CollectorRegistry) -> None:
        registry.register(StrategyMetrics(observing.observed, decided))
        going = lambda: len(evictor.evicting())  # noqa: E731 - nothing to name
        registry.register(EvictionMetrics(observing.observed.node, evictor.counts, going))

    return QoSManager(decider, decided, (decider.run, evictor.run), register)


def _carry(node: Node, wanted: Wanted) -> None:
    node.carrier.put(wanted)
    node.keeper.wake()


def _wishes(node: Node, group: str) -> list[Document]:
    """What stands of a cgroup's knobs, for people."""
    return [
        {
            "knob": knob,
            "value": one.value,
            "owner": one.owner,
            "why": one.why,
            "conflict": str(one.conflict) if one.conflict else "",
        }
        for knob, one in node.carrier.standing(group)
    ]


def _nothing_known(_: Target) -> None:
    """What there would be without strategies, where nothing was ever written."""


def _no_node() -> Object | None:
    return None
