"""Prometheus metrics of a manager besides webhooks and NodeMetrics in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from koord_manager.node_backstop.controller import BackstopFigures


class ObservedQueue(Protocol):
    """A controller's queue of work."""

    handled: int
    failures: int

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ManagerStatus:
    """Present numbers of a manager; ``queues`` by controller, ``pass_seconds`` of the last pass.

    ``resizes`` are by what became of them, ``resize_states`` pods by what was decided.
    """

    leads: bool
    problems: int
    nodes: int = 0
    passes: int = 0
    pass_seconds: float = 0.0
    queues: tuple[tuple[str, ObservedQueue], ...] = ()
    backstop: BackstopFigures | None = None
    resizes: Mapping[str, int] = field(default_factory=dict)
    resize_states: Mapping[str, int] = field(default_factory=dict)


class ManagerMetrics(Collector):
    """Read at each scrape."""

    def __init__(self, registry: CollectorRegistry, figures: Callable[[], ManagerStatus]) -> None:
        self._figures = figures
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Nothing: figures are not known yet when this is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All of it."""
        now = self._figures()
        yield _gauge("leader", "Whether this manager leads.", now.leads)
        yield _gauge(
            "slo_config_problems",
            "Bad keys of slo-controller-config.",
            now.problems,
        )
        yield _gauge("nodes", "Nodes that the leader knows.", now.nodes)
        yield CounterMetricFamily(
            "koord_manager_noderesource_passes",
            "Calculations of what all nodes offer.",
            value=now.passes,
        )
        yield _gauge(
            "noderesource_pass_seconds", "How long that took the last time.", now.pass_seconds
        )
        yield from _queues(now.queues)
        if now.backstop is not None:
            yield from _backstop(now.backstop)
        if now.resize_states:  # else the gate is off
            yield from _resizes(now)


def _queues(queues: Iterable[tuple[str, ObservedQueue]]) -> Iterator[Metric]:
    name = "koord_manager_queue"
    length = GaugeMetricFamily(f"{name}_length", "Objects to be looked at.", labels=["controller"])
    handled = CounterMetricFamily(
        f"{name}_handled", "Objects that were looked at.", labels=["controller"]
    )
    failures = CounterMetricFamily(
        f"{name}_failures", "Looks that failed, to be tried again.", labels=["controller"]
    )
    for controller, queue in queues:
        length.add_metric([controller], len(queue))
        handled.add_metric([controller], queue.handled)
        failures.add_metric([controller], queue.failures)
    yield from (length, handled, failures)


def _backstop(figures: BackstopFigures) -> Iterator[Metric]:
    yield _gauge("backstop_nodes", "Unhealthy nodes for long enough.", figures.unhealthy)
    yield _gauge("backstop_stopped", "Whether too many nodes are unhealthy.", figures.is_stopped)
    evictions = CounterMetricFamily(
        "koord_manager_backstop_evictions", "Evictions of unhealthy nodes.", labels=["result"]
    )
    for result, number in figures.evictions.items():
        evictions.add_metric([result], number)
    yield evictions


def _resizes(now: ManagerStatus) -> Iterator[Metric]:
    done = CounterMetricFamily(
        "koord_manager_pod_resizes", "Resizes of pods, by what became of them.", labels=["result"]
    )
    states = GaugeMetricFamily(
        "koord_manager_resize_pods",
        "Pods of workloads that may be resized, by the last decision about them.",
        labels=["decision"],
    )
    for result, count in sorted(now.resizes.items()):
        done.add_metric([result], count)
    for state, count in sorted(now.resize_states.items()):
        states.add_metric([state], count)
    yield from (done, states)


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"koord_manager_{name}", about, value=value)
