"""Usage of a node and its pods as its NodeMetric has it, or why it has none. No IO."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from koord_model.fields import quantity
from koord_model.quantity import binary_text, nano, nano_text, whole

from koord_manager.metrics_apis.core.pods import MetricPod
from koord_manager.metrics_apis.core.report_time import report_time
from koord_manager.node_metric.core.store import StoredMetric
from koord_manager.slo_config.core.colocation import ColocationStrategy

_PLAIN = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?(?:[num]|[kMGT]i?|Ki)?")
"""Amounts that every reader of quantities takes, of which most are."""


class Usage(msgspec.Struct):
    """Amounts as Kubernetes writes them."""

    cpu: str
    memory: str


class ContainerUsage(msgspec.Struct):
    """A container, as metrics.k8s.io has it."""

    name: str
    usage: Usage


class _Resources(msgspec.Struct):
    resources: dict[str, Any] | None = None


class _Ours(msgspec.Struct):
    containers: dict[str, dict[str, Any]] | None = None


class _Extensions(msgspec.Struct):
    pykoord: _Ours | None = None


class _PodMetric(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    usage: _Resources | None = msgspec.field(default=None, name="podUsage")
    extensions: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))


class _NodeMetric(msgspec.Struct):
    usage: _Resources | None = msgspec.field(default=None, name="nodeUsage")


class _Status(msgspec.Struct):
    updated: str | None = msgspec.field(default=None, name="updateTime")
    node: _NodeMetric | None = msgspec.field(default=None, name="nodeMetric")
    pods: list[_PodMetric] | None = msgspec.field(default=None, name="podsMetric")


_STATUS = msgspec.json.Decoder(_Status)
_EXTENSIONS = msgspec.json.Decoder(_Extensions | None)


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Report of one node, made at ``time`` (seconds since the epoch) over ``window`` seconds."""

    time: float
    window: float
    usage: Usage | None
    pods: Mapping[tuple[str, str], _PodMetric]

    def containers(self, pod: MetricPod) -> list[ContainerUsage]:
        """Usage of each container of a pod; empty if it is not known of all.

        Half of a pod's containers would look like a pod that uses half, and autoscalers would go
        by that. A pod that came after the report has another one's usage, if any.
        """
        found = self.pods.get((pod.namespace, pod.name))
        if found is None or pod.created > self.time:
            return []
        if pod.only_container:
            used = usage_of(found.usage)
            return [ContainerUsage(pod.only_container, used)] if used else []
        return list(_several(pod, _containers(found)))


def report_of(
    kept: StoredMetric, strategy: ColocationStrategy, heard: float, now: float
) -> UsageReport | None:
    """The report of a node; ``None`` if it is too old, or none.

    ``heard`` is when it came and ``now`` the present, in seconds since the epoch. Its time is what
    the node's clock said; of a clock that is ahead it is when it came.
    """
    if kept.stale_since:
        return None
    try:
        status = _STATUS.decode(kept.status)
    except (msgspec.MsgspecError, RecursionError):
        return None
    at = report_time(status.updated, heard)
    if now - at > strategy.degrade_seconds:
        return None
    node = status.node
    pods = {(pod.namespace, pod.name): pod for pod in status.pods or ()}
    window = float(strategy.metric_aggregate_seconds)
    return UsageReport(at, window, usage_of(node.usage if node else None), pods)


def usage_of(given: _Resources | None) -> Usage | None:
    """CPU and memory; ``None`` unless both are known."""
    return _usage((given.resources if given else None) or {})


def _usage(amounts: Mapping[str, Any]) -> Usage | None:
    try:
        return Usage(_cpu(amounts["cpu"]), _memory(amounts["memory"]))
    except (KeyError, ValueError):
        return None


def _cpu(given: object) -> str:
    if isinstance(given, str) and _PLAIN.fullmatch(given):
        return given
    return nano_text(_positive(nano(quantity(given))))


def _memory(given: object) -> str:
    if isinstance(given, str) and _PLAIN.fullmatch(given):
        return given
    return binary_text(_positive(whole(quantity(given))))


def _positive(amount: int) -> int:
    if amount < 0:
        raise ValueError(f"{amount} is below 0")
    return amount


def _containers(found: _PodMetric) -> Mapping[str, Mapping[str, Any]]:
    try:
        extensions = _EXTENSIONS.decode(found.extensions)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    ours = extensions.pykoord if extensions else None
    return (ours.containers if ours else None) or {}


def _several(pod: MetricPod, known: Mapping[str, Mapping[str, Any]]) -> Iterator[ContainerUsage]:
    used = {name: _usage(known.get(name, {})) for name in pod.names}
    if all(used[name] for name in pod.containers):
        for name, usage in used.items():
            if usage is not None:
                yield ContainerUsage(name, usage)
