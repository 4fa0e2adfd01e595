"""Defaults by the API server for a new pod, as far as it decides where it runs. No IO.

Not here: what admission adds from other objects (priorities, overhead of runtime classes), defaults
of resources of whole pods, and ``matchLabelKeys`` of pod affinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Manifest = Mapping[str, Any]

DEFAULT_NAMESPACE = "default"


def with_defaults(pod: Manifest, number: int = 0) -> Manifest:
    """A pod as it would be created; ``number`` makes its uid, and its name by ``generateName``."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    name = metadata.get("name") or f"{metadata.get('generateName', '')}{number}"
    on_host = bool(spec.get("hostNetwork"))
    containers = {
        kind: [_container(one, on_host=on_host) for one in spec.get(kind) or ()]
        for kind in ("initContainers", "containers")
    }
    return {
        **pod,
        "metadata": {
            "namespace": DEFAULT_NAMESPACE,
            **metadata,
            "name": name,
            "uid": metadata.get("uid") or str(number),
        },
        "spec": {**spec, **containers},
    }


def _container(container: Manifest, *, on_host: bool) -> Manifest:
    """Add the requests that limits imply; on the host's network also the ports of the host."""
    resources = container.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    made = {**container, "resources": {**resources, "requests": requests}}
    ports = container.get("ports")
    if on_host and ports:
        made["ports"] = [{**port, "hostPort": port.get("containerPort", 0)} for port in ports]
    return made
