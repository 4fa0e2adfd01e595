"""Documents of the API in JSON: objects, lists, tables, events, discovery, refusals. No IO.

An object's JSON is put together around the status, which was checked when it came in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from koord_kube.protocol.resources import SERVED_NODE_METRICS
from koord_model.fields import quantity
from koord_model.keys import ANNOTATION_STALE_SINCE
from koord_model.quantity import milli, whole
from koord_model.times import from_rfc3339
from koord_serving.aggregated.core.list_options import (
    NameSelector,
    ObjectForm,
    StatusError,
    continuation,
)

from koord_manager.node_metric.core.store import MetricEvent, MetricPage, StoredMetric

GROUP, VERSION = SERVED_NODE_METRICS.group, SERVED_NODE_METRICS.version
API_VERSION = f"{GROUP}/{VERSION}"
PLURAL, KIND = SERVED_NODE_METRICS.plural, SERVED_NODE_METRICS.kind
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Json = dict[str, Any]

_META = "meta.k8s.io/v1"
_COLUMNS = [
    {"name": name, "type": "string", "format": format_, "description": description, "priority": 0}
    for name, format_, description in (
        ("Name", "name", "Name of the node."),
        ("CPU", "", "What the node uses of its CPUs."),
        ("Memory", "", "What the node uses of its memory."),
        ("Age", "", "Since the node was created."),
        ("Healthy", "", "Whether the node reports; False with the time since it does not."),
    )
]
_SPANS = ((2 * 86400 * 365, 86400 * 365, "y"), (86400 * 2, 86400, "d"), (10800, 3600, "h"))


class _Resources(msgspec.Struct):
    resources: dict[str, Any] = {}


class _NodeUsage(msgspec.Struct):
    nodeUsage: _Resources | None = None  # noqa: N815


class _Status(msgspec.Struct):
    nodeMetric: _NodeUsage | None = None  # noqa: N815


_DECODER = msgspec.json.Decoder(_Status)


def encoded(kept: StoredMetric, form: ObjectForm = ObjectForm.OBJECT) -> bytes:
    """One object; it has no ``ObjectForm.TABLE``."""
    if form is ObjectForm.METADATA:
        alone = {"apiVersion": _META, "kind": "PartialObjectMetadata", "metadata": _metadata(kept)}
        return msgspec.json.encode(alone)
    head = {"apiVersion": API_VERSION, "kind": KIND, "metadata": _metadata(kept)}
    return b"".join((msgspec.json.encode(head)[:-1], b',"status":', kept.status, b"}"))


def listed(
    page: MetricPage, names: NameSelector, form: ObjectForm, *, full: bool, now: float
) -> Iterator[bytes]:
    """A list in pieces, one an object; ``full`` rows of tables have the objects in them."""
    meta: Json = {"resourceVersion": str(page.version)}
    if page.after:
        meta["continue"] = continuation(page.version, page.after)
        if names.all:
            meta["remainingItemCount"] = page.remaining
    chosen = (stored for stored in page.objects if names.include(stored.name))
    if form is ObjectForm.TABLE:
        yield from _table(meta, chosen, full=full, now=now)
        return
    head: Json = {"apiVersion": API_VERSION, "kind": f"{KIND}List", "metadata": meta}
    if form is ObjectForm.METADATA:
        head |= {"apiVersion": _META, "kind": "PartialObjectMetadataList"}
    yield msgspec.json.encode(head)[:-1] + b',"items":['
    yield from _separated(encoded(stored, form) for stored in chosen)
    yield b"]}"


def shown(kept: StoredMetric, form: ObjectForm, *, full: bool, now: float) -> bytes:
    """One object in any form."""
    if form is not ObjectForm.TABLE:
        return encoded(kept, form)
    meta = {"resourceVersion": str(kept.version)}
    return b"".join(_table(meta, [kept], full=full, now=now))


def line(event: MetricEvent, form: ObjectForm, *, full: bool, now: float) -> bytes:
    """An event of a watch; what went shows the version at which it did."""
    kept = event.kept
    if kept.version != event.version:
        kept = replace(kept, version=event.version)
    return _line(event.type, shown(kept, form, full=full, now=now))


def bookmark(version: int, form: ObjectForm, *, initial_end: bool = False) -> bytes:
    """A bookmark; with ``initial_end`` it marks the end of the initial objects."""
    meta: Json = {"resourceVersion": str(version), "creationTimestamp": None}
    if initial_end:
        meta["annotations"] = {INITIAL_EVENTS_END: "true"}
    if form is ObjectForm.TABLE:
        table = b"".join(_table({"resourceVersion": str(version)}, [], full=False, now=0.0))
        return _line("BOOKMARK", table)
    head = {"apiVersion": API_VERSION, "kind": KIND}
    if form is ObjectForm.METADATA:
        head = {"apiVersion": _META, "kind": "PartialObjectMetadata"}
    return _line("BOOKMARK", msgspec.json.encode(head | {"metadata": meta}))


def error_line(refused: StatusError) -> bytes:
    """A watch's last event: why it cannot go on."""
    return _line("ERROR", msgspec.json.encode(status(refused)))


def status(refused: StatusError, group: str = GROUP, plural: str = PLURAL) -> Json:
    """Kubernetes' Status of a refusal."""
    details: Json = {"group": group, "kind": plural} if plural else {}
    if refused.retry_after:
        details["retryAfterSeconds"] = refused.retry_after
    if refused.cause:
        details["causes"] = [{"reason": refused.cause, "message": str(refused)}]
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(refused),
        "reason": refused.reason,
        "details": details,
        "code": refused.status,
    }


def group_list(groups: Iterable[tuple[str, Sequence[str]]]) -> Json:
    """Of /apis: groups with their versions, the preferred one first."""
    found = [_group(name, versions) for name, versions in groups]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def group(name: str, versions: Sequence[str]) -> Json:
    """Of /apis/GROUP."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def resource_list() -> Json:
    """Of /apis/GROUP/VERSION."""
    resource = {
        "name": PLURAL,
        "singularName": KIND.lower(),
        "namespaced": False,
        "kind": KIND,
        "verbs": ["get", "list", "watch"],
    }
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [resource],
    }


def human(seconds: float) -> str:
    """A span of time as people read it in tables: 45s, 12m, 5h, 3d."""
    for least, unit, letter in _SPANS:
        if seconds >= least:
            return f"{int(seconds // unit)}{letter}"
    return f"{int(seconds // 60)}m" if seconds >= 120 else f"{max(0, int(seconds))}s"


def _group(name: str, versions: Sequence[str]) -> Json:
    found = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": found, "preferredVersion": found[0]}


def _metadata(kept: StoredMetric) -> Json:
    found: Json = {
        "name": kept.name,
        "uid": kept.uid,
        "resourceVersion": str(kept.version),
        "creationTimestamp": kept.created,
    }
    if kept.stale_since:
        found["annotations"] = {ANNOTATION_STALE_SINCE: kept.stale_since}
    return found


def _table(
    meta: Mapping[str, Any], objects: Iterable[StoredMetric], *, full: bool, now: float
) -> Iterator[bytes]:
    head = {
        "kind": "Table",
        "apiVersion": _META,
        "metadata": meta,
        "columnDefinitions": _COLUMNS,
    }
    yield msgspec.json.encode(head)[:-1] + b',"rows":['
    yield from _separated(_row(stored, full=full, now=now) for stored in objects)
    yield b"]}"


def _row(kept: StoredMetric, *, full: bool, now: float) -> bytes:
    cpu, memory = _usage(kept.status)
    healthy = f"False ({_span(kept.stale_since, now)})" if kept.stale_since else "True"
    cells = [kept.name, cpu, memory, _span(kept.created, now), healthy]
    inside = encoded(kept, ObjectForm.OBJECT if full else ObjectForm.METADATA)
    return b'{"cells":%b,"object":%b}' % (msgspec.json.encode(cells), inside)


def _usage(given: bytes) -> tuple[str, str]:
    """Of CPU and memory; "<unknown>" where the status does not have it."""
    try:
        found = _DECODER.decode(given)
    except (msgspec.MsgspecError, RecursionError):
        return "<unknown>", "<unknown>"
    usage = found.nodeMetric and found.nodeMetric.nodeUsage
    resources = usage.resources if usage else {}
    return _amount(resources, "cpu"), _amount(resources, "memory")


def _amount(resources: Mapping[str, Any], name: str) -> str:
    try:
        given = quantity(resources[name])
        return f"{milli(given)}m" if name == "cpu" else f"{whole(given) >> 20}Mi"
    except (KeyError, ValueError):
        return "<unknown>"


def _span(since: str, now: float) -> str:
    try:
        began = from_rfc3339(since)
    except ValueError:
        return "<unknown>"
    return human(now - began)


def _line(type_: str, given: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), given)


def _separated(given: Iterable[bytes]) -> Iterator[bytes]:
    between = b""
    for stored in given:
        yield between + stored
        between = b","
