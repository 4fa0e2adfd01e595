"""Strategies' decisions for Prometheus: made anew at each scrape.

How each fares, and the numbers that they found out: as Koordinator's metric (its
``pkg/koordlet/metrics``) where it has one, else as ``koordlet_strategy_signal``. Behind a signal's
name may stand "/" and the value of a label that Koordinator's has: "be_suppress_cpu_cores/cpuset",
"container_scaled_cfs_quota_us/CONTAINER".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from koordlet.http_api.documents.node import DocumentSources
from koordlet.http_api.documents.why import DecisionSources
from koordlet.http_api.prometheus import MetricFamilies
from koordlet.qos_manager.core.strategy import StrategyMode, StrategySignal
from koordlet.qos_manager.core.strategy_runner import StrategyState
from koordlet.states_informer.state.pod_inventory import PodRecord

_MODES = {StrategyMode.OFF: 0, StrategyMode.SHADOW: 1, StrategyMode.ON: 2}
_TYPE, _CONTAINER = "type", "container_name"


@dataclass(frozen=True, slots=True)
class _KoordinatorMetric:
    """A metric of Koordinator's; ``label`` is what stands behind the signal's "/"."""

    name: str
    meaning: str
    label: str = ""


def _of_containers(name: str, meaning: str) -> tuple[tuple[str, str], _KoordinatorMetric]:
    return ("cpu_burst", name), _KoordinatorMetric(name, meaning, _CONTAINER)


_NAMED: Mapping[tuple[str, str], _KoordinatorMetric] = {
    ("cpu_suppress", "be_suppress_cpu_cores"): _KoordinatorMetric(
        "be_suppress_cpu_cores", "CPUs that best-effort pods are left.", _TYPE
    ),
    ("cpu_suppress", "ls_used_cpu_cores"): _KoordinatorMetric(
        "be_suppress_ls_used_cpu_cores", "CPU that all but best-effort pods use."
    ),
    **dict(
        (
            _of_containers("container_scaled_cfs_burst_us", "CPU time that it may save up."),
            _of_containers("container_scaled_cfs_quota_us", "The raised CPU quota."),
        )
    ),
}
"""By strategy and signal."""
_BE_USED = "be_suppress_be_used_cpu_cores"


class StrategyMetrics(Collector):
    """Registers with a ``CollectorRegistry``; every scrape asks ``decided``."""

    def __init__(self, observed: DocumentSources, decided: DecisionSources) -> None:
        self._observed = observed
        self._decided = decided

    def describe(self) -> Iterable[Metric]:
        """Nothing: what there is depends on the strategies."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics of one scrape."""
        families = MetricFamilies(self._observed.node)
        for state in self._decided.strategies():
            _fares(families, state)
        used = self._observed.newest("node_be").get(("cpu", "usage"))
        meaning = "CPU that best-effort pods use."
        families.add(_BE_USED, meaning, {}, None if used is None else used / 1000)
        pods = {record.pod.full_name: record for record in self._observed.pods()}
        for strategy, signals in self._decided.signals().items():
            for signal in signals:
                _signal(families, strategy, signal, pods)
        yield from families.made()


def _fares(families: MetricFamilies, state: StrategyState) -> None:
    labels = {"strategy": state.name}
    meaning = "0 off, 1 shadow (decides, nothing is done), 2 on."
    mode = _MODES[state.mode] if state.enabled else 0
    families.add("strategy_mode", meaning, labels, mode)
    if not state.enabled:
        return
    families.add("strategy_seconds", "CPU time of its last round.", labels, state.seconds)
    families.add("strategy_decisions", "Decisions that stand.", labels, state.decisions)
    families.add(
        "strategy_wishes", "Knobs for which it desires a value now.", labels, state.desired
    )
    families.count("strategy_rounds", "Rounds of a strategy.", labels, state.rounds)
    families.count("strategy_failures", "Rounds in which it failed.", labels, state.failures)
    families.count("strategy_overruns", "Rounds that took too long.", labels, state.overruns)


def _signal(
    families: MetricFamilies, strategy: str, signal: StrategySignal, pods: Mapping[str, PodRecord]
) -> None:
    """One row: of a metric of Koordinator's where the signal is one, with all of its labels."""
    name, _, value = signal.name.partition("/")
    known = _NAMED.get((strategy, name))
    labels = None if known is None else _labels(known, value, pods.get(signal.pod))
    if known is None or labels is None:
        labels = {"strategy": strategy, "name": signal.name, "pod": signal.pod}
        families.add("strategy_signal", "A number that a strategy found.", labels, signal.value)
    else:
        families.add(known.name, known.meaning, labels, signal.value)


def _labels(
    known: _KoordinatorMetric, value: str, record: PodRecord | None
) -> dict[str, str] | None:
    """The labels of Koordinator's; ``None`` where the signal does not say them all."""
    if not known.label:
        return {}
    if known.label == _TYPE:
        return {_TYPE: value}
    for container in record.containers.values() if record is not None else ():
        if record is not None and container.name == value:
            return {
                "pod_namespace": record.pod.namespace,
                "pod_name": record.pod.name,
                "container_id": f"{record.runtime}://{container.id}",
                "container_name": container.name,
            }
    return None
