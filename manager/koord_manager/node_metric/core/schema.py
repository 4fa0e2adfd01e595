"""The OpenAPI documents: what `kubectl explain nodemetrics` shows. No IO.

The status is that of the definition of NodeMetrics in etcd. There is no spec:
the object in etcd says what nodes collect.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from koord_kube.definitions.node_metric import STATUS
from koord_kube.definitions.schema import list_of, map_of, object_of, text, time, whole
from koord_model.keys import ANNOTATION_STALE_SINCE
from koord_model.version import VERSION as PROGRAM

from koord_manager.node_metric.core.documents import API_VERSION, GROUP, KIND, PLURAL, VERSION

Json = dict[str, Any]

V3_PATH = f"/openapi/v3/apis/{API_VERSION}"

_KIND = f"sh.koordinator.metrics.v1alpha1.{KIND}"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_GVK = "x-kubernetes-group-version-kind"


def _schemas(root: str, status: Json) -> Json:
    """By name; ``root`` is where references point."""
    head = {
        "apiVersion": text("Version of the schema of this object."),
        "kind": text("The kind of this object."),
    }
    kind = object_of(
        "NodeMetric is what everything on a node used lately, as the node itself reports it "
        "to the manager, which keeps it in memory.",
        **head,
        metadata=_reference(root, _OBJECT_META, "Standard metadata."),
        status=status,
    )
    every = object_of(
        "A list of NodeMetrics.",
        **head,
        metadata=_reference(root, _LIST_META, "Standard list metadata."),
        items=list_of("The NodeMetrics.", _reference(root, _KIND, "A NodeMetric.")),
    )
    return {
        _KIND: kind | {_GVK: [{"group": GROUP, "version": VERSION, "kind": KIND}]},
        f"{_KIND}List": every
        | {_GVK: [{"group": GROUP, "version": VERSION, "kind": f"{KIND}List"}]},
        _OBJECT_META: object_of(
            "Metadata of an object.",
            name=text("Name of the node."),
            uid=text("Identifier of the node's NodeMetric."),
            resourceVersion=text("Version of the last change."),
            creationTimestamp=time("When the node was created."),
            annotations=map_of(f"With {ANNOTATION_STALE_SINCE} the node is silent.", text()),
        ),
        _LIST_META: object_of(
            "Metadata of a list.",
            resourceVersion=text("Version to watch from."),
            **{"continue": text("Asks for the next page.")},
            remainingItemCount=whole("How many more there are."),
        ),
    }


def _reference(root: str, name: str, description: str) -> Json:
    # Beside a $ref nothing else counts in OpenAPI 3.0.
    return {"description": description, "allOf": [{"$ref": f"{root}{name}"}]}


def _without_choices(schema: Json) -> Json:
    """OpenAPI 2 knows of no alternatives; what may be a number or text has no type there."""
    found: Json = {}
    for name, value in schema.items():
        if name in ("anyOf", "oneOf"):
            continue
        if isinstance(value, dict):
            found[name] = _without_choices(value)
        else:
            found[name] = value
    return found


def _operation(action: str, kind: str, answer: Json, *, v3: bool) -> Json:
    name = "ListMetricsV1alpha1NodeMetric" if action == "list" else "ReadMetricsV1alpha1NodeMetric"
    body = {"content": {"application/json": {"schema": answer}}} if v3 else {"schema": answer}
    operation: Json = {
        "operationId": name[0].lower() + name[1:],
        "tags": ["metrics_v1alpha1"],
        "responses": {"200": {"description": "OK", **body}},
        "x-kubernetes-action": action,
        _GVK: {"group": GROUP, "version": VERSION, "kind": kind},
    }
    return operation if v3 else operation | {"produces": ["application/json"], "schemes": ["https"]}


def _paths(root: str, *, v3: bool) -> Json:
    every = {"$ref": f"{root}{_KIND}List"}
    kind = {"$ref": f"{root}{_KIND}"}
    name: Json = {"name": "name", "in": "path", "required": True}
    name |= {"schema": {"type": "string"}} if v3 else {"type": "string"}
    base = f"/apis/{API_VERSION}/{PLURAL}"
    return {
        base: {"get": _operation("list", KIND, every, v3=v3)},
        f"{base}/{{name}}": {"get": _operation("get", KIND, kind, v3=v3), "parameters": [name]},
    }


def v2() -> bytes:
    """Of /openapi/v2, which the aggregator merges into its own."""
    root = "#/definitions/"
    return msgspec.json.encode(
        {
            "swagger": "2.0",
            "info": {"title": "pykoord NodeMetrics", "version": PROGRAM},
            "paths": _paths(root, v3=False),
            "definitions": _schemas(root, _without_choices(STATUS)),
        }
    )


def v3() -> bytes:
    """Of ``V3_PATH``."""
    root = "#/components/schemas/"
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "pykoord NodeMetrics", "version": PROGRAM},
            "paths": _paths(root, v3=True),
            "components": {"schemas": _schemas(root, STATUS)},
        }
    )


def v3_index() -> Json:
    """Of /openapi/v3: where the document is, with a name that changes as it does."""
    digest = hashlib.sha256(v3()).hexdigest().upper()
    url = f"{V3_PATH}?hash={digest}"
    return {"paths": {f"apis/{API_VERSION}": {"serverRelativeURL": url}}}
