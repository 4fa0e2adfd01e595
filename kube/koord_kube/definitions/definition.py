"""A CustomResourceDefinition, put together. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from koord_kube.definitions.schema import Schema, object_of
from koord_kube.protocol.resources import Resource


@dataclass(frozen=True, slots=True)
class Column:
    """One that ``kubectl get`` shows; those of ``priority`` 1 only with ``-o wide``."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0


AGE = Column("Age", ".metadata.creationTimestamp", "date")


def label_path(label: str) -> str:
    """The path of a label's value; a dot in its name is none of the path."""
    return f".metadata.labels.{label.replace('.', chr(92) + '.')}"


_METADATA = {
    "apiVersion": {"type": "string", "description": "Version of the schema of this object."},
    "kind": {"type": "string", "description": "The kind of this object."},
    "metadata": {"type": "object"},
}
_APPROVED = "api-approved.kubernetes.io"


def definition(
    resource: Resource,
    about: str,
    fields: dict[str, Schema],
    columns: Iterable[Column] = (AGE,),
    *,
    status: bool = True,
    short: Iterable[str] = (),
    approved: str = "",
    required: Iterable[str] = (),
    newer: tuple[str, Schema] | None = None,
) -> dict[str, Any]:
    """The definition of a kind with these fields beside its metadata.

    ``status`` is whether it has the status subresource, ``short`` what kubectl may call it,
    ``approved`` where a group of Kubernetes' own was approved. ``newer`` is a version that
    others read and write, and its fields as an object's; all is stored in that one then.
    """
    schemas = [(resource.version, object_of(about, *required, **fields))]
    schemas += [newer] if newer else []
    shown = [_column(column) for column in columns]
    more: dict[str, Any] = {"subresources": {"status": {}}} if status else {}
    versions = [
        _version(name, schema) | {"additionalPrinterColumns": shown} | more
        for name, schema in schemas
    ]
    versions[-1]["storage"] = True
    metadata: dict[str, Any] = {"name": f"{resource.plural}.{resource.group}"}
    if approved:
        metadata["annotations"] = {_APPROVED: approved}
    names = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": resource.group,
            "names": names | ({"shortNames": list(short)} if short else {}),
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": versions,
        },
    }


def _version(name: str, schema: Schema) -> dict[str, Any]:
    whole = schema | {"properties": _METADATA | schema["properties"]}
    return {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": whole}}


def _column(column: Column) -> dict[str, Any]:
    found = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return found | ({"priority": column.priority} if column.priority else {})
