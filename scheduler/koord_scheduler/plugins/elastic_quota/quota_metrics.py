"""Prometheus metrics of quotas: Koordinator's, by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from koord_model.demand import Amounts
from koord_model.elastic_quota import ElasticQuota
from koord_model.keys import ANNOTATION_UNSCHEDULABLE_RESOURCE
from prometheus_client import Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from koord_scheduler.plugins.elastic_quota.columns import QuotaColumns
from koord_scheduler.plugins.elastic_quota.report import reported_amounts

_BUCKETS = tuple(0.001 * 2**power for power in range(15))
_LABELS = ["name", "resource", "tree", "is_parent", "parent", "field"]


class QuotaFigures(NamedTuple):
    """A quota with what there is to know of it, by field."""

    quota: ElasticQuota
    tree: str
    fields: Mapping[str, Amounts]


def quota_figures(quotas: QuotaColumns) -> list[QuotaFigures]:
    """All quotas of the API."""
    trees = quotas.trees
    found = []
    for read in quotas.objects.values():
        one = trees.find(read.quota.name)
        if one is not None:
            quota, amounts = read.quota, reported_amounts(trees, one)
            fields: dict[str, Amounts] = {
                **{key.rpartition("/")[2]: dict(listed) for key, listed in amounts.items()},
                "used": dict(one.node.used),
                "min": quota.min,
                "max": quota.max,
                "sharedWeight": quota.shared_weight,
            }
            if quota.is_tree_root:
                key = ANNOTATION_UNSCHEDULABLE_RESOURCE.rpartition("/")[2]
                fields[key] = quota.unschedulable_resource
            found.append(QuotaFigures(quota, trees.tree_name(one), fields))
    return found


class QuotaMetrics(Collector):
    """Read at each scrape; of as many series as quotas have resources, times a dozen fields."""

    def __init__(self, figures: Callable[[], Iterable[QuotaFigures]]) -> None:
        self._figures = figures
        self.report_seconds = Histogram(
            "scheduler_update_elastic_quota_status_duration_seconds",
            "How long it took to write how a quota stands.",
            buckets=_BUCKETS,
            registry=None,
        )

    def describe(self) -> Iterable[Metric]:
        """Nothing: quotas are not known yet when this is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All amounts: CPU in millicores, everything else whole."""
        family = GaugeMetricFamily(
            "scheduler_elastic_quota_status",
            "What a quota has, asks for and uses, by field.",
            labels=_LABELS,
        )
        for quota, tree, fields in self._figures():
            is_parent = str(quota.is_parent).lower()
            for field, amounts in fields.items():
                for resource, amount in sorted(amounts.items()):
                    labels = [quota.name, resource, tree, is_parent, quota.parent, field]
                    family.add_metric(labels, amount)
        yield family
        yield from self.report_seconds.collect()
