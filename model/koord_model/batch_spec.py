"""The value of the annotation extended-resource-spec, as containers request batch resources. No IO.

``containers`` has those that run together, so also init containers that stay: their sum is the
pod's. ``initContainers`` has all init containers; it is our own. Koordinator's koordlet does not
read it, and in ``containers`` it would add them all up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from koord_model.keys import BATCH_CPU, BATCH_MEMORY

_NAMES = (BATCH_CPU, BATCH_MEMORY)


class RequestedResources(Protocol):
    """The requests and limits of a container, as the API has them."""

    @property
    def limits(self) -> Mapping[str, Any] | None:
        """Limits by the name of the resource."""
        ...

    @property
    def requests(self) -> Mapping[str, Any] | None:
        """Requests by the name of the resource."""
        ...


class RequestingContainer(Protocol):
    """A container, or an init container, of a pod's specification."""

    @property
    def name(self) -> str:
        """The container's name."""
        ...

    @property
    def resources(self) -> RequestedResources | None:
        """The container's requests and limits."""
        ...

    @property
    def restart_policy(self) -> str | None:
        """``Always`` for an init container that runs beside the others."""
        ...


def batch_spec(
    containers: Iterable[RequestingContainer], inits: Iterable[RequestingContainer]
) -> dict[str, Any]:
    """Build the annotation's value; empty where no container has batch resources."""
    inits = tuple(inits)
    sidecars = (container for container in inits if container.restart_policy == "Always")
    groups = {"containers": _group((*containers, *sidecars)), "initContainers": _group(inits)}
    return {name: group for name, group in groups.items() if group}


def _group(containers: Iterable[RequestingContainer]) -> dict[str, Any]:
    found = {container.name: _amounts(container.resources) for container in containers}
    return {name: amounts for name, amounts in found.items() if amounts}


def _amounts(resources: RequestedResources | None) -> dict[str, Any]:
    if resources is None:
        return {}
    both = {"limits": _batch(resources.limits), "requests": _batch(resources.requests)}
    return {name: amounts for name, amounts in both.items() if amounts}


def _batch(given: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: given[name] for name in _NAMES if name in given} if given else {}
