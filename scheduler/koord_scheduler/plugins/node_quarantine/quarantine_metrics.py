"""Prometheus metrics of nodes in quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class QuarantineMetrics(Collector):
    """Read at each scrape: nodes and kinds in quarantine, and the number of rejections."""

    def __init__(self, figures: Callable[[], tuple[list[tuple[str, str]], int]]) -> None:
        self._figures = figures

    def describe(self) -> Iterable[Metric]:
        """Nothing: it is not known yet when this is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Both figures."""
        wards, rejected = self._figures()
        family = GaugeMetricFamily(
            "pykoord_scheduler_quarantined_nodes",
            "Nodes that get no pods that request a resource (empty: any pods).",
            labels=["resource"],
        )
        for kind, number in sorted(Counter(kind for _, kind in wards).items()):
            family.add_metric([kind], number)
        yield family
        yield CounterMetricFamily(
            "pykoord_scheduler_rejected_bindings",
            "Bound pods that a kubelet did not admit.",
            value=rejected,
        )
