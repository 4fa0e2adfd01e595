"""A double of the API server's checks of a pod: the published schema, and rules it lacks.

The rules are those of resources. What is in Kubernetes' own domain (``kubernetes.io/…``, or no
domain) may be overcommitted: a request may be less than its limit, and a limit may be missing.
Of an extended resource the request is the limit, and a whole number.
"""

from __future__ import annotations

from typing import Any

import kubernetes_validate
from koord_model.quantity import milli, whole

VERSION = "1.34"


def problems(pod: dict[str, Any]) -> list[str]:
    """What the API server would refuse."""
    try:
        kubernetes_validate.validate(pod, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [error.message]
    spec = pod["spec"]
    listed = [*(spec.get("initContainers") or []), *spec["containers"]]
    return [line for one in listed for line in _resources(one)]


def is_extended(name: str) -> bool:
    return "/" in name and not name.split("/")[0].endswith("kubernetes.io")


def _resources(container: dict[str, Any]) -> list[str]:
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    found = []
    for name, quantity in requests.items():
        if name in limits and milli(quantity) > milli(limits[name]):
            found.append(f"{name}: requests {quantity}, more than its limit {limits[name]}")
        if is_extended(name) and milli(quantity) != milli(limits.get(name, -1)):
            found.append(f"{name}: requests {quantity}, which is not its limit")
    for name, quantity in (*requests.items(), *limits.items()):
        if milli(quantity) < 0:
            found.append(f"{name}: {quantity} is negative")
        if is_extended(name) and milli(quantity) != 1000 * whole(quantity):
            found.append(f"{name}: {quantity} is no whole number")
    return found
