"""Pods as the metrics APIs need them, by namespace. No IO."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

import msgspec
from koord_kube.views.labels import shared_labels
from koord_kube.views.pod import ClusterPodDocument, ContainerSpec, decode_pod
from koord_model.demand import amounts
from koord_model.keys import BATCH_CPU, CPU, MID_CPU
from koord_model.times import from_rfc3339

_SHARED = 1 << 16
"""Names and limits of containers of which equal ones are kept once."""


class MetricPod(msgspec.Struct, frozen=True, gc=False):
    """A pod; ``created`` in seconds since the epoch.

    ``containers`` are those that run for as long as the pod does, ``sidecars`` init containers
    that do as well; ``limits`` are of both in turn, in thousandths of a CPU, 0 for none.
    """

    namespace: str
    name: str
    node: str
    created: float
    labels: Mapping[str, str]
    containers: tuple[str, ...]
    sidecars: tuple[str, ...]
    limits: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of all containers that run for long."""
        return self.containers + self.sidecars

    def cpu_limits(self) -> Iterator[tuple[str, float]]:
        """Containers by name with the CPU that each may use, in cores; NaN without a limit."""
        for name, limit in zip(self.names, self.limits, strict=True):
            yield name, limit / 1000 if limit else math.nan

    @property
    def only_container(self) -> str:
        """Name of the only container; "" if there are several."""
        return self.names[0] if len(self.names) == 1 else ""


class PodIndex:
    """All pods, of which those count that are on a node; ``changed`` is to be called for each."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, MetricPod]] = {}

    def changed(self, _key: str, before: MetricPod | None, now: MetricPod | None) -> None:
        """Take in a change, as an informer's handler."""
        if before is not None:
            pods = self._by_namespace.get(before.namespace, {})
            pods.pop(before.name, None)
            if not pods:
                self._by_namespace.pop(before.namespace, None)
        if now is not None:
            self._by_namespace.setdefault(now.namespace, {})[now.name] = now

    def get(self, namespace: str, name: str) -> MetricPod | None:
        """A pod that is on a node."""
        pod = self._by_namespace.get(namespace, {}).get(name)
        return pod if pod is not None and pod.node else None

    def of(self, namespace: str = "") -> Iterator[MetricPod]:
        """Pods on nodes, of a namespace or of all."""
        for name in (namespace,) if namespace else self._by_namespace:
            yield from (pod for pod in self.everywhere(name) if pod.node)

    def everywhere(self, namespace: str) -> Collection[MetricPod]:
        """Pods of a namespace, with those that are not on a node yet."""
        return self._by_namespace.get(namespace, {}).values()


def read_pod(raw: bytes) -> MetricPod:
    """Decode a Pod.

    Raises:
        ValueError: it is not a Pod.
    """
    return metric_pod(decode_pod(raw))


def metric_pod(pod: ClusterPodDocument) -> MetricPod:
    """A pod as the metrics APIs need it."""
    meta, spec = pod.metadata, pod.spec
    containers = tuple(spec.containers or ())
    sidecars = tuple(container for container in spec.init_containers or () if container.is_sidecar)
    return MetricPod(
        sys.intern(meta.namespace),
        meta.name,
        sys.intern(spec.node),
        _seconds(meta.created),
        shared_labels(meta.labels),
        _names(tuple(container.name for container in containers)),
        _names(tuple(container.name for container in sidecars)),
        _limits(tuple(map(_limit, containers + sidecars))),
    )


def _limit(container: ContainerSpec) -> int:
    """CPU in thousandths; of a batch or mid pod that is the only one it has."""
    found = amounts(container.resources.limits if container.resources else None)
    return next((found[name] for name in (CPU, BATCH_CPU, MID_CPU) if name in found), 0)


def _seconds(created: str) -> float:
    try:
        return from_rfc3339(created)
    except ValueError:
        return 0.0


@lru_cache(maxsize=_SHARED)
def _limits(limits: tuple[int, ...]) -> tuple[int, ...]:
    return limits


@lru_cache(maxsize=_SHARED)
def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    return names
