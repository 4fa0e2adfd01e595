"""Usage as one report of a node has it, kept small: names once, amounts as numbers. No IO."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
from koord_model.fields import quantity
from koord_model.quantity import nano

from koord_manager.metrics_apis.core.aggregates import Point
from koord_manager.metrics_apis.core.report_time import report_time

UNKNOWN = math.nan

_AMOUNTS_OF_ROW = 3


class ContainerKey(NamedTuple):
    """A container of a pod, or with "" as its name the whole pod."""

    namespace: str
    pod: str
    container: str


class RowUsage(NamedTuple):
    """CPU in cores, memory in bytes, ``sched_wait`` in ms for each second of CPU; NaN: unknown."""

    cpu: float
    memory: float
    sched_wait: float = UNKNOWN


@dataclass(frozen=True, slots=True)
class UsageSample:
    """A report made at ``time``, seconds since the epoch, over the ``window`` seconds before.

    Pods may have a shorter ``pod_window``. ``amounts`` has for each of the ``keys`` what
    ``RowUsage`` has. ``zones`` are NUMA nodes by id.
    """

    time: float
    window: float
    pod_window: float
    node: RowUsage
    zones: tuple[tuple[str, RowUsage], ...]
    keys: tuple[ContainerKey, ...]
    amounts: array[float]

    def row(self, place: int) -> RowUsage:
        """Usage of one of the ``keys``."""
        first = place * _AMOUNTS_OF_ROW
        return RowUsage(*self.amounts[first : first + _AMOUNTS_OF_ROW])

    def of_node(self, value: float) -> Point:
        """A value of the node."""
        return Point(self.time, value, self.window)

    def of_pod(self, value: float) -> Point:
        """A value of a pod."""
        return Point(self.time, value, self.pod_window)


class _Usage(msgspec.Struct):
    resources: dict[str, Any] | None = None


class _Zone(msgspec.Struct):
    id: int = msgspec.field(default=-1, name="numaNodeID")
    usage: _Usage | None = msgspec.field(default=None, name="nodeUsage")


class _Node(msgspec.Struct):
    usage: _Usage | None = msgspec.field(default=None, name="nodeUsage")
    zones: list[_Zone] | None = msgspec.field(default=None, name="numaUsages")


class _Delays(msgspec.Struct):
    sched_wait: float = UNKNOWN


class _RecentRow(msgspec.Struct, array_like=True):
    cpu: float
    memory: float
    sched_wait: float = UNKNOWN


class _Ours(msgspec.Struct):
    containers: dict[str, dict[str, Any]] | None = None
    delays: _Delays | None = None
    waits: dict[str, float] | None = msgspec.field(default=None, name="schedWaits")
    recent: dict[str, _RecentRow] | None = None
    recent_seconds: float = msgspec.field(default=0.0, name="recentSeconds")


class _Extensions(msgspec.Struct):
    pykoord: _Ours | None = None


class _Pod(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    usage: _Usage | None = msgspec.field(default=None, name="podUsage")
    extensions: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))


class _Status(msgspec.Struct):
    updated: str | None = msgspec.field(default=None, name="updateTime")
    node: _Node | None = msgspec.field(default=None, name="nodeMetric")
    pods: list[_Pod] | None = msgspec.field(default=None, name="podsMetric")
    extensions: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))


_STATUS = msgspec.json.Decoder(_Status)
_EXTENSIONS = msgspec.json.Decoder(_Extensions | None)
_NO_EXTENSION = _Ours()
_NO_DELAYS = _Delays()
_ABSENT = msgspec.Raw(b"null")


def read_sample(status: bytes, heard: float, window: float) -> UsageSample | None:
    """The sample in a NodeMetric's status; ``None`` if it is none.

    ``heard`` is when it came, in seconds since the epoch: a node's clock may be ahead.
    """
    try:
        found = _STATUS.decode(status)
    except (msgspec.MsgspecError, RecursionError):
        return None
    recent = _extension(found.extensions).recent_seconds
    rows = dict(_rows(found.pods or (), is_recent=recent > 0))
    amounts = array("d", (amount for row in rows.values() for amount in row))
    node = found.node or _Node()
    zones = ((str(zone.id), _usage(zone.usage)) for zone in node.zones or ())
    return UsageSample(
        report_time(found.updated, heard),
        window,
        recent if recent > 0 else window,
        _usage(node.usage),
        tuple(zones),
        tuple(rows),
        amounts,
    )


def _rows(pods: Iterable[_Pod], *, is_recent: bool) -> Iterator[tuple[ContainerKey, RowUsage]]:
    """Rows of one window: of a node that reports recent usage nothing else counts."""
    for pod in pods:
        namespace, ours = sys.intern(pod.namespace), _extension(pod.extensions)
        rows = _recent_rows(ours) if is_recent else _usual_rows(pod, ours)
        for container, used in rows:
            yield ContainerKey(namespace, pod.name, sys.intern(container)), used


def _recent_rows(ours: _Ours) -> Iterator[tuple[str, RowUsage]]:
    for container, row in (ours.recent or {}).items():
        yield container, RowUsage(row.cpu, row.memory, row.sched_wait)


def _usual_rows(pod: _Pod, ours: _Ours) -> Iterator[tuple[str, RowUsage]]:
    delays = ours.delays or _NO_DELAYS
    yield "", _usage(pod.usage, delays.sched_wait)
    for container, resources in filter(itemgetter(0), (ours.containers or {}).items()):
        wait = (ours.waits or {}).get(container, UNKNOWN)
        yield container, _amounts(resources, wait)


def _extension(raw: msgspec.Raw) -> _Ours:
    if raw == _ABSENT:
        return _NO_EXTENSION  # as most pods have: a report has many
    try:
        found = _EXTENSIONS.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return _Ours()
    return (found.pykoord if found else None) or _Ours()


def _usage(given: _Usage | None, sched_wait: float = UNKNOWN) -> RowUsage:
    return _amounts((given.resources if given else None) or {}, sched_wait)


def _amounts(given: Mapping[str, Any], sched_wait: float) -> RowUsage:
    return RowUsage(_amount(given.get("cpu")), _amount(given.get("memory")), sched_wait)


def _amount(given: object) -> float:
    """A quantity as a number; NaN if it is none, or below 0."""
    try:
        amount = nano(quantity(given)) / 1e9
    except ValueError:
        return UNKNOWN
    return amount if amount >= 0 else UNKNOWN
