"""Metrics of evictions. The first two have Koordinator's names and labels.

Its reason is always "evicted"; here it is the rule that claimed.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator

from koord_kube.core.evictions import EvictionResult
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_MOST_PODS = 256
"""The rows of the pods that were evicted last; others go, as the pods have."""


class EvictionCounts:
    """Counts, for ``/metrics`` and people."""

    def __init__(self, events: Counter[str] | None = None) -> None:
        self.by_rule: Counter[str] = Counter()
        self.by_pod: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        self.outcomes: Counter[str] = Counter()
        self.events: Counter[str] = Counter() if events is None else events

    def ended(self, end: EvictionResult, rule: str, namespace: str, name: str) -> None:
        """Count the result of an eviction."""
        self.outcomes[end.value] += 1
        if end is not EvictionResult.EVICTED:
            return
        self.by_rule[rule] += 1
        key = namespace, name, rule
        self.by_pod[key] = self.by_pod.pop(key, 0) + 1
        if len(self.by_pod) > _MOST_PODS:
            self.by_pod.popitem(last=False)


class EvictionMetrics(Collector):
    """Registers with a ``CollectorRegistry``; ``going`` is how many are on their way out."""

    def __init__(self, node: str, counts: EvictionCounts, going: Callable[[], int]) -> None:
        self._node = node
        self._counts = counts
        self._going = going

    def describe(self) -> Iterable[Metric]:
        """Nothing: rows come and go."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics of one scrape."""
        counts, node = self._counts, {"node": self._node}
        # Not of the type counter: that would end its name in "_total", and Koordinator's does not.
        by_rule = Metric("koordlet_pod_eviction", "Pods evicted, by the rule.", "unknown")
        for rule, number in dict(counts.by_rule).items():
            by_rule.add_sample("koordlet_pod_eviction", {**node, "reason": rule}, number)
        yield by_rule
        by_pod = Metric("koordlet_pod_eviction_detail", "The pods evicted last.", "unknown")
        for (namespace, name, rule), number in list(counts.by_pod.items()):
            labels = {**node, "pod_namespace": namespace, "pod_name": name, "reason": rule}
            by_pod.add_sample("koordlet_pod_eviction_detail", labels, number)
        yield by_pod
        yield self._family("evictions", "Evictions, by what became of them.", counts.outcomes)
        yield self._family("eviction_events", "Events on pods, by outcome.", counts.events)
        yield GaugeMetricFamily(
            "koordlet_pods_evicting", "Pods on their way out.", value=float(self._going())
        )

    def _family(self, name: str, meaning: str, counts: Counter[str]) -> Metric:
        family = CounterMetricFamily(f"koordlet_{name}", meaning, labels=("node", "outcome"))
        for outcome, number in sorted(counts.items()):
            family.add_metric((self._node, outcome), number)
        return family
