"""Publishes where the leader is: APIServices, and the only endpoint of a Service.

The Service has no selector, so nobody but us writes its EndpointSlice.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from koord_kube.protocol.api import Api, NotFoundError, Object
from koord_kube.protocol.resources import API_SERVICES, ENDPOINT_SLICES, Resource
from koord_serving.admission.core.ca_bundle_targets import is_served_by
from koord_serving.create_or_update import create_or_update

from koord_manager.node_metric.core.documents import GROUP, VERSION

_MANAGED_LABEL = "app.kubernetes.io/managed-by"
_MANAGER = "koord-manager"


@dataclass(frozen=True, slots=True)
class PublishedGroup:
    """A version of an API group that the leader serves; ``priority`` is among all groups."""

    group: str
    version: str
    priority: int

    @property
    def api_service(self) -> str:
        """Name of its APIService."""
        return f"{self.version}.{self.group}"


NODE_METRICS = PublishedGroup(GROUP, VERSION, 2000)
"""Above that of CRDs, 1000: of the two NodeMetrics plain `kubectl get nodemetrics` means ours."""

API_SERVICE = NODE_METRICS.api_service


@dataclass(frozen=True, slots=True)
class LeaderEndpoint:
    """Address of this manager: the pod's, and its ports by the Service's names for them."""

    service: str
    namespace: str
    ip: str
    ports: Mapping[str, int]
    service_port: int = 443
    """The Service's, of the API."""

    def __post_init__(self) -> None:
        """Raises ValueError for an invalid address, which the API server would refuse."""
        ipaddress.ip_address(self.ip)


class LeaderPublisher:
    """Writes while this manager leads; ``api`` should refuse writes once it does not.

    An APIService that names another Service is somebody else's: it stays as it is, and
    ``on_foreign`` gets it.
    """

    def __init__(
        self,
        api: Api,
        endpoint: LeaderEndpoint,
        groups: Sequence[PublishedGroup] = (NODE_METRICS,),
        *,
        on_foreign: Callable[[Object], None] = lambda _found: None,
    ) -> None:
        self._api = api
        self._endpoint = endpoint
        self._groups = groups
        self._on_foreign = on_foreign
        self._slice = slice_name(endpoint)

    async def publish(self) -> None:
        """Be the leader to all who look for one. Done again it does no harm.

        Raises:
            ApiError: it may not have been removed.
        """
        await self.publish_endpoint()
        for group in self._groups:
            await self.register(group)

    async def publish_endpoint(self) -> None:
        """Be the Service's only endpoint.

        Raises:
            ApiError: it may not be.
        """
        await self._lay(ENDPOINT_SLICES, slice_of(self._endpoint), lambda _found: True)

    async def register(self, *versions: PublishedGroup) -> None:
        """Have API servers ask the Service for a group, unless they ask somebody else for it.

        Clients take the preferred one of its ``versions``: where one is somebody else's, so is the
        group.

        Raises:
            ApiError: they may not do so.
        """
        found = [await self._find(group) for group in versions]
        foreign = [
            service for service in found if service is not None and not self._is_ours(service)
        ]
        for service in foreign:
            self._on_foreign(service)
        if foreign:
            await self.unregister(*versions)
            return
        for group in versions:
            await self._lay(API_SERVICES, api_service(self._endpoint, group), self._may_write)

    async def unregister(self, *versions: PublishedGroup) -> None:
        """Delete the APIServices of a group that are ours.

        Raises:
            ApiError: they may still be there.
        """
        for group in versions:
            found = await self._find(group)
            labels = (found["metadata"].get("labels") or {}) if found is not None else {}
            if found is None or labels.get(_MANAGED_LABEL) != _MANAGER or not self._is_ours(found):
                continue
            uid = found["metadata"].get("uid", "")
            with suppress(NotFoundError):
                await self._api.delete(API_SERVICES, group.api_service, uid=uid)

    async def _find(self, group: PublishedGroup) -> Object | None:
        try:
            return await self._api.get(API_SERVICES, group.api_service)
        except NotFoundError:
            return None

    async def withdraw(self) -> None:
        """Remove this endpoint, unless another leader has replaced it.

        Raises:
            ApiError: it is not known to be done.
        """
        namespace = self._endpoint.namespace
        await create_or_update(self._api, ENDPOINT_SLICES, self._slice, namespace, self._without_us)

    async def _lay(
        self, resource: Resource, ours: Object, may_write: Callable[[Object], bool]
    ) -> None:
        name, namespace = ours["metadata"]["name"], ours["metadata"].get("namespace", "")

        def desired(found: Object | None) -> Object | None:
            return _over(found, ours) if found is None or may_write(found) else None

        await create_or_update(self._api, resource, name, namespace, desired)

    def _may_write(self, found: Object) -> bool:
        if not self._is_ours(found):
            self._on_foreign(found)
            return False
        return True

    def _is_ours(self, found: Object) -> bool:
        return is_served_by(found, self._endpoint.service, self._endpoint.namespace)

    def _without_us(self, found: Object | None) -> Object | None:
        """The endpoint of a new leader stays."""
        if found is None or not _is_of(found, self._endpoint.ip):
            return None
        return {**found, "endpoints": []}


def api_service(endpoint: LeaderEndpoint, group: PublishedGroup) -> Object:
    """That a group-version is served by the Service. The CA bundle is written elsewhere."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": group.api_service, "labels": {_MANAGED_LABEL: _MANAGER}},
        "spec": {
            "group": group.group,
            "version": group.version,
            "groupPriorityMinimum": group.priority,
            "versionPriority": 100,
            "service": {
                "name": endpoint.service,
                "namespace": endpoint.namespace,
                "port": endpoint.service_port,
            },
        },
    }


def slice_of(endpoint: LeaderEndpoint) -> Object:
    """That this manager is the Service's only endpoint."""
    labels = {
        "kubernetes.io/service-name": endpoint.service,
        "endpointslice.kubernetes.io/managed-by": _MANAGER,
    }
    ready = {"ready": True, "serving": True, "terminating": False}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": slice_name(endpoint),
            "namespace": endpoint.namespace,
            "labels": labels,
        },
        "addressType": "IPv6" if ":" in endpoint.ip else "IPv4",
        "endpoints": [{"addresses": [endpoint.ip], "conditions": ready}],
        "ports": [
            {"name": name, "port": port, "protocol": "TCP"}
            for name, port in sorted(endpoint.ports.items())
        ],
    }


def slice_name(endpoint: LeaderEndpoint) -> str:
    """One for each family: the type of a slice's addresses never changes."""
    return f"{endpoint.service}-{'ipv6' if ':' in endpoint.ip else 'ipv4'}"


def _is_of(found: Object, ip: str) -> bool:
    endpoints = found.get("endpoints") or []
    return any(ip in (endpoint.get("addresses") or []) for endpoint in endpoints)


def _over(found: Any, ours: Any) -> Any:
    """Lay ours over what is there: fields that are not ours stay."""
    if isinstance(found, dict) and isinstance(ours, dict):
        return {**found, **{key: _over(found.get(key), part) for key, part in ours.items()}}
    return ours
