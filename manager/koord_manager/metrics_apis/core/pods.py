"""Pods as the metrics APIs need them, by namespace. No IO."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from koord_model.demand import amounts
from koord_model.keys import BATCH_CPU, CPU, MID_CPU
from koord_model.times import from_rfc3339

_SHARED = 1 << 16
"""Sets of labels and container names of which equal ones are kept once."""


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
    """All pods that are on a node; ``changed`` is called for each change of one."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, MetricPod]] = {}

    def changed(self, _key: str, before: MetricPod | None, now: MetricPod | None) -> None:
        """Take in a change, as an informer's handler."""
        if before is not None:
            pods = self._by_namespace.get(before.namespace, {})
            pods.pop(before.name, None)
            if not pods:
                self._by_namespace.pop(before.namespace, None)
        if now is not None and now.node:
            self._by_namespace.setdefault(now.namespace, {})[now.name] = now

    def get(self, namespace: str, name: str) -> MetricPod | None:
        """A pod."""
        return self._by_namespace.get(namespace, {}).get(name)

    def of(self, namespace: str = "") -> Iterator[MetricPod]:
        """Pods of a namespace, or of all."""
        if namespace:
            yield from self._by_namespace.get(namespace, {}).values()
            return
        for pods in self._by_namespace.values():
            yield from pods.values()


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    created: str = msgspec.field(default="", name="creationTimestamp")
    labels: dict[str, str] | None = None


class _Resources(msgspec.Struct):
    limits: dict[str, Any] | None = None


class _Container(msgspec.Struct):
    name: str = ""
    restart: str | None = msgspec.field(default=None, name="restartPolicy")
    resources: _Resources | None = None


class _Spec(msgspec.Struct):
    node: str = msgspec.field(default="", name="nodeName")
    containers: list[_Container] | None = None
    init: list[_Container] | None = msgspec.field(default=None, name="initContainers")


class _Pod(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


_POD = msgspec.json.Decoder(_Pod)


def read_pod(raw: bytes) -> MetricPod:
    """Decode a Pod.

    Raises:
        msgspec.MsgspecError: it is not a Pod.
    """
    found = _POD.decode(raw)
    meta, spec = found.metadata, found.spec
    containers = tuple(spec.containers or ())
    sidecars = tuple(container for container in spec.init or () if container.restart == "Always")
    return MetricPod(
        sys.intern(meta.namespace),
        meta.name,
        sys.intern(spec.node),
        _seconds(meta.created),
        _labels(tuple(sorted((meta.labels or {}).items()))),
        _names(tuple(container.name for container in containers)),
        _names(tuple(container.name for container in sidecars)),
        _limits(tuple(map(_limit, containers + sidecars))),
    )


def _limit(container: _Container) -> int:
    """CPU in thousandths; of a batch or mid pod that is the only one it has."""
    found = amounts(container.resources.limits if container.resources else None)
    return next((found[name] for name in (CPU, BATCH_CPU, MID_CPU) if name in found), 0)


def _seconds(created: str) -> float:
    try:
        return from_rfc3339(created)
    except ValueError:
        return 0.0


@lru_cache(maxsize=_SHARED)
def _labels(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)


@lru_cache(maxsize=_SHARED)
def _limits(limits: tuple[int, ...]) -> tuple[int, ...]:
    return limits


@lru_cache(maxsize=_SHARED)
def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    return names
