"""Parts of objects that the calculation keeps: no more than it uses. No IO.

All of it can be compared, so that only what counts here is a change. Each reader raises
``msgspec.MsgspecError`` for any other object.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec
from koord_model import cpuset
from koord_model.keys import ANNOTATION_CPU_BASIC_INFO, ANNOTATION_POD_CPU_ALLOCS

Object = dict[str, Any]

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""With its zone, as Kubernetes writes times: without one it could be hours off."""


NO_STATUS = b"null"
"""Status of a NodeMetric whose node has not reported yet."""


class _Metric(msgspec.Struct):
    status: msgspec.Raw = msgspec.Raw(NO_STATUS)


class _Updated(msgspec.Struct):
    updated: Instant | None = msgspec.field(default=None, name="updateTime")


class _Meta(msgspec.Struct):
    version: str = msgspec.field(default="", name="resourceVersion")
    annotations: dict[str, str] | None = None


class _Topology(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    zones: msgspec.Raw = msgspec.Raw(b"[]")


_METRIC = msgspec.json.Decoder(_Metric)
_UPDATED: msgspec.json.Decoder[_Updated | None] = msgspec.json.Decoder(_Updated | None)
_TOPOLOGY = msgspec.json.Decoder(_Topology)
_ZONES: msgspec.json.Decoder[list[Object] | None] = msgspec.json.Decoder(list[Object] | None)


def metric_status(raw: bytes) -> bytes:
    """Of a NodeMetric: its status, as it came."""
    return bytes(_METRIC.decode(raw).status)


def updated(status: bytes) -> float:
    """Return when a NodeMetric's status was made, in seconds since the epoch; 0 without a time."""
    try:
        found = _UPDATED.decode(status)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return 0.0
    return found.updated.timestamp() if found and found.updated else 0.0


def older_than_its_node(at: float, created: str) -> bool:
    """True if a status that was ``updated`` at ``at`` is from before its Node was ``created``.

    Then it is of an earlier Node of that name. ``created`` is as Kubernetes writes times;
    where one of the two is not known, the status counts.
    """
    try:
        return 0 < at < msgspec.convert(created, Instant).timestamp()
    except msgspec.ValidationError:
        return False


@dataclass(frozen=True, slots=True)
class TopologyDocument:
    """Of a NodeResourceTopology: what its CPUs are, and its zones as JSON.

    ``guaranteed`` millicores are those that the kubelet's static CPU manager has given to pods.
    """

    version: str
    basic_info: str
    zones: bytes
    guaranteed: int = 0

    def document(self) -> Object:
        """As much of the object as is kept."""
        annotations_ = {ANNOTATION_CPU_BASIC_INFO: self.basic_info} if self.basic_info else {}
        zones = _ZONES.decode(self.zones) or []
        return {"metadata": {"annotations": annotations_}, "zones": zones}


def topology(raw: bytes) -> TopologyDocument:
    """Decode the kept parts of it."""
    found = _TOPOLOGY.decode(raw)
    _ZONES.decode(found.zones)
    annotations_ = (found.metadata.annotations or {}).get(ANNOTATION_CPU_BASIC_INFO, "")
    allocated = (found.metadata.annotations or {}).get(ANNOTATION_POD_CPU_ALLOCS, "")
    return TopologyDocument(
        found.metadata.version, annotations_, bytes(found.zones), _guaranteed(allocated)
    )


class _Allocation(msgspec.Struct):
    cpus: str = msgspec.field(default="", name="cpuset")
    kubelet: bool = msgspec.field(default=False, name="managedByKubelet")


_ALLOCATIONS = msgspec.json.Decoder(list[_Allocation])


def _guaranteed(text: str) -> int:
    """The millicores of pods' own CPUs; none of an annotation that is not valid."""
    if not text:
        return 0
    try:
        given = _ALLOCATIONS.decode(text)
        sets = [cpuset.parse(each.cpus) for each in given if each.kubelet]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return 0
    return 1000 * len(frozenset[int]().union(*sets))
