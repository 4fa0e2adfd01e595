"""Says in the cluster where the leader is: the APIService, and the only endpoint of a Service.

The Service has no selector, so nobody but us writes its EndpointSlice.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from koord_kube.api import Api, ConflictError, NotFoundError, Object
from koord_kube.resources import API_SERVICES, ENDPOINT_SLICES, Resource

from koord_manager.metrics_api.documents import GROUP, VERSION

API_SERVICE = f"{VERSION}.{GROUP}"

_PRIORITY = 2000
"""Above that of CRDs, 1000: of the two NodeMetrics plain `kubectl get nodemetrics` means ours."""

_MANAGED_LABEL = "app.kubernetes.io/managed-by"
_MANAGER = "koord-manager"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where this manager is: the pod's address, and its ports by the Service's names for them."""

    service: str
    namespace: str
    ip: str
    ports: Mapping[str, int]
    service_port: int = 443
    """The Service's, of the API."""

    def __post_init__(self) -> None:
        """Raises ValueError for what is no address, which every slice would be refused for."""
        ipaddress.ip_address(self.ip)


class Publisher:
    """Writes while this manager leads; ``api`` should refuse writes once it does not."""

    def __init__(self, api: Api, endpoint: Endpoint) -> None:
        self._api = api
        self._endpoint = endpoint
        self._slice = slice_name(endpoint)

    async def publish(self) -> None:
        """Be the leader to all who look for one. Done again it does no harm.

        Raises:
            ApiError: it is not known to be done.
        """
        await self._lay(API_SERVICES, API_SERVICE, "", api_service(self._endpoint))
        await self._lay(
            ENDPOINT_SLICES, self._slice, self._endpoint.namespace, slice_of(self._endpoint)
        )

    async def withdraw(self) -> None:
        """Be it no more, unless somebody else is already.

        Raises:
            ApiError: it is not known to be done.
        """
        namespace = self._endpoint.namespace
        try:
            found = await self._api.get(ENDPOINT_SLICES, self._slice, namespace)
            if not _is_of(found, self._endpoint.ip):
                return
            # At the version it was read at: who has taken over since stays.
            version = str(found["metadata"]["resourceVersion"])
            await self._api.patch(
                ENDPOINT_SLICES, self._slice, {"endpoints": []}, namespace, version=version
            )
        except (NotFoundError, ConflictError):
            return

    async def _lay(self, resource: Resource, name: str, namespace: str, wanted: Object) -> None:
        """Make it so; fields that are not ours stay."""
        try:
            found = await self._api.get(resource, name, namespace)
        except NotFoundError:
            await self._api.create(resource, wanted, namespace)
            return
        change = {key: wanted[key] for key in wanted if key not in ("kind", "apiVersion")}
        if not _has(found, change):
            await self._api.patch(resource, name, change, namespace)


def api_service(endpoint: Endpoint) -> Object:
    """That our group-version is served by the Service. Whom to trust there is for others to say."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": API_SERVICE, "labels": {_MANAGED_LABEL: _MANAGER}},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": _PRIORITY,
            "versionPriority": 100,
            "service": {
                "name": endpoint.service,
                "namespace": endpoint.namespace,
                "port": endpoint.service_port,
            },
        },
    }


def slice_of(endpoint: Endpoint) -> Object:
    """That this manager is the Service's only endpoint."""
    labels = {
        "kubernetes.io/service-name": endpoint.service,
        "endpointslice.kubernetes.io/managed-by": _MANAGER,
    }
    ready = {"ready": True, "serving": True, "terminating": False}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": slice_name(endpoint), "labels": labels},
        "addressType": "IPv6" if ":" in endpoint.ip else "IPv4",
        "endpoints": [{"addresses": [endpoint.ip], "conditions": ready}],
        "ports": [
            {"name": name, "port": port, "protocol": "TCP"}
            for name, port in sorted(endpoint.ports.items())
        ],
    }


def slice_name(endpoint: Endpoint) -> str:
    """One for each family: the type of a slice's addresses never changes."""
    return f"{endpoint.service}-{'ipv6' if ':' in endpoint.ip else 'ipv4'}"


def _is_of(found: Object, ip: str) -> bool:
    endpoints = found.get("endpoints") or []
    return any(ip in (one.get("addresses") or []) for one in endpoints)


def _has(found: Any, wanted: Any) -> bool:
    """Whether a merge patch would change nothing."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            key in found and _has(found[key], value) for key, value in wanted.items()
        )
    return bool(found == wanted)
