"""Values of custom.metrics.k8s.io and external.metrics.k8s.io in JSON. No IO.

After k8s.io/metrics, ``pkg/apis/{custom,external}_metrics``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from koord_model.quantity import decimal_text, nano_text
from koord_model.times import rfc3339

from koord_manager.metrics_apis.core.aggregates import MetricSelector, MetricSeries, Point

Json = dict[str, Any]

CUSTOM_GROUP = "custom.metrics.k8s.io"
CUSTOM_VERSIONS = ("v1beta2", "v1beta1")
"""The preferred one first."""

EXTERNAL_GROUP = "external.metrics.k8s.io"
EXTERNAL_VERSION = "v1beta1"

CUSTOM_KIND, EXTERNAL_KIND = "MetricValueList", "ExternalMetricValueList"


class DescribedObject(NamedTuple):
    """The object that a metric is of."""

    kind: str
    name: str
    namespace: str = ""

    def reference(self) -> Json:
        """Return it as an ObjectReference."""
        place = {"namespace": self.namespace} if self.namespace else {}
        return {"kind": self.kind, **place, "name": self.name, "apiVersion": "v1"}


def custom_values(
    version: str,
    described: DescribedObject,
    metric: str,
    series: Iterable[MetricSeries],
    asked: MetricSelector,
) -> Iterator[bytes]:
    """The values of an object, one a point; without labels they have the selector asked for."""
    reference = described.reference()
    for found in series:
        selector = {"matchLabels": found.labels} if found.labels else _expressions(asked)
        for point in found.points:
            yield msgspec.json.encode(_custom(version, reference, metric, selector, point))


def _custom(
    version: str, reference: Json, metric: str, selector: Json | None, point: Point
) -> Json:
    value = {"timestamp": rfc3339(point.time), "value": value_text(point.value)}
    window = round(point.window)
    if version == "v1beta1":
        head = {"describedObject": reference, "metricName": metric, "selector": selector}
        return head | value | {"window": window}
    head = {"describedObject": reference, "metric": {"name": metric, "selector": selector}}
    return head | value | {"windowSeconds": window}


def external_value(
    metric: str, labels: Mapping[str, str], time: float, value: str, window: float | None
) -> bytes:
    """A value that is of no object; its text is a quantity."""
    made: Json = {"metricName": metric, "metricLabels": labels, "timestamp": rfc3339(time)}
    if window is not None:
        made["window"] = round(window)
    return msgspec.json.encode(made | {"value": value})


def value_list(group: str, version: str, kind: str, values: Iterable[bytes]) -> Iterator[bytes]:
    """A list of values, in pieces."""
    head = {"kind": kind, "apiVersion": f"{group}/{version}", "metadata": {}}
    yield msgspec.json.encode(head)[:-1] + b',"items":['
    between = b""
    for value in values:
        yield between + value
        between = b","
    yield b"]}"


def resource_list(group: str, version: str, kind: str, names: Sequence[tuple[str, bool]]) -> Json:
    """The discovery document; resources by name, and whether they are in namespaces."""
    resources = [
        {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get"]}
        for name, namespaced in names
    ]
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{version}"}
    return head | {"resources": resources}


def value_text(value: float) -> str:
    """A number as a quantity, to a billionth."""
    whole = int(value)
    part = round((value - whole) * 1e9)
    return nano_text(whole * 10**9 + part) if part else decimal_text(whole)


def _expressions(asked: MetricSelector) -> Json | None:
    requirements = [
        {"key": given.key, "operator": given.operator.value, "values": sorted(given.values)}
        for given in asked.labels.requirements
    ]
    return {"matchExpressions": requirements} if requirements else None
