"""A custom kind without much of a schema, for the rules that hold for all of them."""

from __future__ import annotations

from typing import Any

from koord_kube.protocol.resources import Resource

NOTES = Resource("example.org", "v1", "notes", "Note")
_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SCHEMA = {"type": "object", "properties": {"spec": _ANY, "status": _ANY}}

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "notes.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Cluster",
        "names": {"plural": "notes", "kind": "Note"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _SCHEMA},
                "subresources": {"status": {}},
            }
        ],
    },
}


def note(name: str = "n1", **more: Any) -> Any:
    meta = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": "example.org/v1", "kind": "Note", "metadata": meta, **more}
