"""Objects of two custom kinds, for the rules that the double shares with a real server."""

from __future__ import annotations

from typing import Any

from koord_kube.protocol.resources import Resource

NOTES = Resource("example.org", "v1", "notes", "Note")
THINGS = Resource("example.org", "v1", "things", "Thing")
_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
THING: Any = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9},
        "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "share": {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^[0-9]+%?$",
        },
        "name": {"type": "string", "nullable": True},
        "when": {"type": "string", "format": "date-time"},
        "anything": _ANY,
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "more": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": {
                "type": "object",
                "required": ["key"],
                "properties": {"key": {"type": "string"}},
            },
        },
    },
}


def definition(spec: Any = _ANY, kind: str = "Note", **more: Any) -> Any:
    schema = {"type": "object", "properties": {"spec": spec, "status": _ANY}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Cluster",
            "names": {"plural": plural, "kind": kind},
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
            **more,
        },
    }


def note(name: str = "n1", **more: Any) -> Any:
    meta = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": "example.org/v1", "kind": "Note", "metadata": meta, **more}


def node(name: str = "n1", **labels: str) -> Any:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
