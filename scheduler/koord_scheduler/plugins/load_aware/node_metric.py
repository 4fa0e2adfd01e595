"""A NodeMetric as the scheduler reads it: what a node and its pods used lately. No IO."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from koord_kube.views.decode import decode_view
from koord_kube.views.pod import Quantities
from koord_model import duration
from koord_model.demand import Amounts, amounts
from koord_model.keys import CPU, MEMORY
from koord_model.priority import PriorityClass
from koord_model.times import from_rfc3339

from koord_scheduler.plugins.load_aware.settings import UsageWindow

_SAMPLED = frozenset({CPU, MEMORY})
_REPORT_SECONDS = 60.0
"""Koordinator's default of ``reportIntervalSeconds``."""


class ReportedUsage(msgspec.Struct, frozen=True, gc=False):
    """Amounts that are used."""

    resources: Quantities | None = None


class UsageOfWindow(msgspec.Struct, frozen=True):
    """Usage by aggregation ("p95") of the last so long."""

    usage: dict[str, ReportedUsage] | None = None
    duration: str = "0s"


class NodeMetricInfoView(msgspec.Struct, frozen=True, rename="camel"):
    """The node as a whole."""

    node_usage: ReportedUsage | None = None
    system_usage: ReportedUsage | None = None
    aggregated_node_usages: list[UsageOfWindow] | None = None


class PodMetricView(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One pod."""

    name: str = ""
    namespace: str = ""
    pod_usage: ReportedUsage | None = None
    priority: str = ""


class NodeMetricStatusView(msgspec.Struct, frozen=True, rename="camel"):
    """Measurements."""

    update_time: str | None = None
    node_metric: NodeMetricInfoView | None = None
    pods_metric: list[PodMetricView | None] | None = None


class MetricCollectPolicyView(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Interval of the node's reports."""

    report_interval_seconds: int | None = None


class NodeMetricSpecView(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Settings of the measurement."""

    metric_collect_policy: MetricCollectPolicyView | None = None


class NodeMetricView(msgspec.Struct, frozen=True):
    """The object, as far as it is read."""

    spec: NodeMetricSpecView = NodeMetricSpecView()
    status: NodeMetricStatusView = NodeMetricStatusView()


class ReportedPod(NamedTuple):
    """Usage of a pod; ``is_prod``: the node took it for a production pod."""

    usage: Amounts
    is_prod: bool


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A NodeMetric. ``updated`` is in seconds since the epoch, -inf where it does not say.

    ``usage`` is what the node uses, ``None`` before it was measured; ``system`` what of that is
    neither of pods nor of host applications; ``windows`` have usages over longer times. ``pods``
    are by namespace/name.
    """

    updated: float = -math.inf
    interval: float = _REPORT_SECONDS
    usage: Amounts | None = None
    system: Amounts = field(default_factory=dict)
    windows: Mapping[UsageWindow, Amounts] = field(default_factory=dict)
    pods: Mapping[str, ReportedPod] = field(default_factory=dict)

    def lacks(self, resource: str) -> bool:
        """True if the node's CPU or memory was not measured."""
        return resource in _SAMPLED and (self.usage is None or resource not in self.usage)

    def over(self, window: UsageWindow) -> Amounts | None:
        """Return the node's usage over a window; ``None`` where that was not measured."""
        found = self.windows.get(window)
        return self.usage if found is None and not window.seconds else found


_DECODER = msgspec.json.Decoder(NodeMetricView)


def read_node_metric(text: bytes) -> NodeReport:
    """The NodeMetric in a JSON document; quantities that are not valid are left out.

    Raises:
        ValueError: it is not a NodeMetric, or a time in it is not one.
    """
    view = decode_view(_DECODER, text, "a valid NodeMetric")
    status, policy = view.status, view.spec.metric_collect_policy
    interval = policy.report_interval_seconds if policy is not None else None
    info = status.node_metric
    return NodeReport(
        from_rfc3339(status.update_time) if status.update_time else -math.inf,
        _REPORT_SECONDS if interval is None else float(interval),
        _measured(_amounts(info.node_usage)) if info is not None else None,
        _amounts(info.system_usage) if info is not None else {},
        _windows(info.aggregated_node_usages or ()) if info is not None else {},
        {
            f"{one.namespace}/{one.name}": ReportedPod(
                _amounts(one.pod_usage), one.priority == PriorityClass.PROD
            )
            for one in status.pods_metric or ()
            if one is not None and one.pod_usage is not None and one.pod_usage.resources
        },
    )


def _measured(usage: Amounts) -> Amounts | None:
    """Usage that has a sample; ``None`` for any other: no sample does not mean unused."""
    return None if usage.keys().isdisjoint(_SAMPLED) else usage


def _amounts(usage: ReportedUsage | None) -> Amounts:
    return amounts(usage.resources) if usage is not None else {}


def _windows(given: list[UsageOfWindow] | tuple[()]) -> Mapping[UsageWindow, Amounts]:
    """By window; the one of 0 seconds is the longest that there is."""
    found: dict[UsageWindow, Amounts] = {}
    longest: dict[str, float] = {}
    for one in given:
        seconds = duration.seconds(one.duration)
        for aggregation, usage in (one.usage or {}).items():
            if (measured := _measured(_amounts(usage))) is not None:
                found[UsageWindow(aggregation, seconds)] = measured
                longest[aggregation] = max(seconds, longest.get(aggregation, 0.0))
    return found | {
        UsageWindow(aggregation): found[UsageWindow(aggregation, seconds)]
        for aggregation, seconds in longest.items()
    }
