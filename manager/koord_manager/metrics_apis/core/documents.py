"""NodeMetrics and PodMetrics of metrics.k8s.io in JSON: objects, lists, tables. No IO.

Columns are those of metrics-server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from koord_model import duration
from koord_model.quantity import binary_text, nano, nano_text, whole
from koord_model.times import rfc3339
from koord_serving.aggregated.core.list_options import ObjectForm

from koord_manager.metrics_apis.core.pods import MetricPod
from koord_manager.metrics_apis.core.reports import ContainerUsage, Usage, UsageReport

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"

_META = "meta.k8s.io/v1"
_COLUMNS = [
    {"name": name, "type": "string", "format": format_, "description": "", "priority": 0}
    for name, format_ in (("Name", "name"), ("cpu", ""), ("memory", ""), ("Window", ""))
]


class Kind(NamedTuple):
    """A kind of objects and its name in paths."""

    kind: str
    plural: str
    namespaced: bool


NODES = Kind("NodeMetrics", "nodes", namespaced=False)
PODS = Kind("PodMetrics", "pods", namespaced=True)


class _Metadata(msgspec.Struct, omit_defaults=True):
    name: str
    creationTimestamp: str  # noqa: N815
    namespace: str = ""
    labels: Mapping[str, str] = {}


class NodeMetricsDocument(msgspec.Struct):
    """Usage of a node."""

    metadata: _Metadata
    timestamp: str
    window: str
    usage: Usage
    kind: str = NODES.kind
    apiVersion: str = API_VERSION  # noqa: N815


class PodMetricsDocument(msgspec.Struct):
    """Usage of a pod's containers."""

    metadata: _Metadata
    timestamp: str
    window: str
    containers: list[ContainerUsage]
    kind: str = PODS.kind
    apiVersion: str = API_VERSION  # noqa: N815


Document = NodeMetricsDocument | PodMetricsDocument


def node_document(
    name: str, labels: Mapping[str, str], report: UsageReport, now: float
) -> NodeMetricsDocument | None:
    """The NodeMetrics of a node; ``None`` where it has reported no usage."""
    if report.usage is None:
        return None
    metadata = _Metadata(name, rfc3339(now), labels=labels)
    return NodeMetricsDocument(metadata, *_when(report), report.usage)


def pod_document(pod: MetricPod, report: UsageReport, now: float) -> PodMetricsDocument | None:
    """The PodMetrics of a pod; ``None`` where the usage of its containers is not known."""
    containers = report.containers(pod)
    if not containers:
        return None
    metadata = _Metadata(pod.name, rfc3339(now), pod.namespace, pod.labels)
    return PodMetricsDocument(metadata, *_when(report), containers)


def listed(
    kind: Kind, documents: Iterable[Document], form: ObjectForm, *, full: bool
) -> Iterator[bytes]:
    """A list in pieces; ``full`` rows of tables have the objects in them."""
    if form is ObjectForm.TABLE:
        yield from _table(documents, full=full)
        return
    head = {"apiVersion": API_VERSION, "kind": f"{kind.kind}List", "metadata": {}}
    if form is ObjectForm.METADATA:
        head |= {"apiVersion": _META, "kind": "PartialObjectMetadataList"}
    yield msgspec.json.encode(head)[:-1] + b',"items":['
    yield from _separated(_encoded(document, form) for document in documents)
    yield b"]}"


def shown(document: Document, form: ObjectForm, *, full: bool) -> bytes:
    """One object in any form."""
    if form is ObjectForm.TABLE:
        return b"".join(_table([document], full=full))
    return _encoded(document, form)


def resource_list() -> dict[str, Any]:
    """Of /apis/metrics.k8s.io/v1beta1."""
    resources = [
        {
            "name": kind.plural,
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": ["get", "list"],
        }
        for kind in (NODES, PODS)
    ]
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION}
    return head | {"resources": resources}


def _when(report: UsageReport) -> tuple[str, str]:
    return rfc3339(report.time), duration.written(report.window)


def _encoded(document: Document, form: ObjectForm) -> bytes:
    if form is ObjectForm.METADATA:
        head = {"apiVersion": _META, "kind": "PartialObjectMetadata"}
        return msgspec.json.encode(head | {"metadata": document.metadata})
    return msgspec.json.encode(document)


def _table(documents: Iterable[Document], *, full: bool) -> Iterator[bytes]:
    head = {"kind": "Table", "apiVersion": _META, "metadata": {}, "columnDefinitions": _COLUMNS}
    yield msgspec.json.encode(head)[:-1] + b',"rows":['
    yield from _separated(_row(document, full=full) for document in documents)
    yield b"]}"


def _row(document: Document, *, full: bool) -> bytes:
    usage = (
        document.usage if isinstance(document, NodeMetricsDocument) else _sum(document.containers)
    )
    cells = [document.metadata.name, usage.cpu, usage.memory, document.window]
    inside = _encoded(document, ObjectForm.OBJECT if full else ObjectForm.METADATA)
    return b'{"cells":%b,"object":%b}' % (msgspec.json.encode(cells), inside)


def _sum(containers: Iterable[ContainerUsage]) -> Usage:
    used = [container.usage for container in containers]
    cpu, memory = sum(nano(usage.cpu) for usage in used), sum(whole(usage.memory) for usage in used)
    return Usage(nano_text(cpu), binary_text(memory))


def _separated(given: Iterable[bytes]) -> Iterator[bytes]:
    between = b""
    for piece in given:
        yield between + piece
        between = b","
