"""Kubernetes' metrics APIs as gates have the manager serve them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from koord_manager.metrics_apis.core import documents
from koord_manager.metrics_apis.core.metric_values import (
    CUSTOM_GROUP,
    CUSTOM_VERSIONS,
    EXTERNAL_GROUP,
    EXTERNAL_VERSION,
)
from koord_manager.metrics_apis.custom_metrics import CustomMetricsGroup
from koord_manager.metrics_apis.external_metrics import Descriptors, ExternalMetricsGroup
from koord_manager.metrics_apis.resource_metrics import ResourceMetricsGroup
from koord_manager.metrics_apis.sources import UsageSources
from koord_manager.node_metric.api import ApiGroup
from koord_manager.node_metric.publisher import PublishedGroup
from koord_manager.program.gates import CUSTOM_METRICS, EXTERNAL_METRICS, RESOURCE_METRICS

_PRIORITY = 100
"""As metrics-server, prometheus-adapter and KEDA have it."""


class MetricsGroup(NamedTuple):
    """A group, its gate, and the versions by which it is registered."""

    gate: str
    name: str
    versions: tuple[PublishedGroup, ...]


def _group(gate: str, name: str, *versions: str) -> MetricsGroup:
    return MetricsGroup(
        gate, name, tuple(PublishedGroup(name, version, _PRIORITY) for version in versions)
    )


METRICS_GROUPS: tuple[MetricsGroup, ...] = (
    _group(RESOURCE_METRICS, documents.GROUP, documents.VERSION),
    _group(CUSTOM_METRICS, CUSTOM_GROUP, *CUSTOM_VERSIONS),
    _group(EXTERNAL_METRICS, EXTERNAL_GROUP, EXTERNAL_VERSION),
)


def served_groups(
    gates: Mapping[str, bool], sources: UsageSources, descriptors: Descriptors
) -> Iterator[ApiGroup]:
    """The groups whose gates are on."""
    if gates[RESOURCE_METRICS]:
        yield ResourceMetricsGroup(sources)
    if gates[CUSTOM_METRICS]:
        yield CustomMetricsGroup(sources)
    if gates[EXTERNAL_METRICS]:
        yield ExternalMetricsGroup(descriptors, clock=sources.clock)
