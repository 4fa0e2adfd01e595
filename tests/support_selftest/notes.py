"""Objects for the rules that the double shares with a real server."""

from __future__ import annotations

from typing import Any

from koord_kube.protocol.resources import Resource

NOTES = Resource("example.org", "v1", "notes", "Note")
_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


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
