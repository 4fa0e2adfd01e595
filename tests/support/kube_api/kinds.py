"""The kinds that the double serves, and how a request for them is refused: with a ``Status``."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec
from aiohttp import web
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    ACCESS_REVIEWS,
    API_SERVICES,
    CLUSTER_NETWORK_TOPOLOGIES,
    CONFIG_MAPS,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    DEFINITIONS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    DEVICES,
    DISRUPTION_BUDGETS,
    DRAIN_NODE_GROUPS,
    DRAIN_NODES,
    ENDPOINT_SLICES,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODE_METRICS,
    NODE_SLOS,
    NODE_TOPOLOGIES,
    NODES,
    POD_GROUPS,
    POD_MIGRATION_JOBS,
    PODS,
    PRIORITY_CLASSES,
    RECOMMENDATIONS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESERVATIONS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SCHEDULING_GROUPS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    TOKEN_REVIEWS,
    VALIDATING_WEBHOOKS,
    VOLUME_ATTACHMENTS,
    VOLUME_CLAIMS,
    VOLUMES,
    Resource,
)

T = TypeVar("T")
Causes = list[tuple[str, str]]
"""Fields that are wrong, each with why."""

PDBS = DISRUPTION_BUDGETS
STORAGE = {
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUME_CLAIMS,
    VOLUMES,
}
DRA = {DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES}
"""Dynamic resource allocation; older API servers lack it."""
REVIEWS = frozenset({TOKEN_REVIEWS, ACCESS_REVIEWS})
"""Questions: they are answered, not kept."""

BUILT_IN = (
    REVIEWS
    | STORAGE
    | DRA
    | {
        API_SERVICES,
        CONFIG_MAPS,
        DEFINITIONS,
        DEPLOYMENTS,
        ENDPOINT_SLICES,
        EVENTS,
        LEASES,
        MUTATING_WEBHOOKS,
        NAMESPACES,
        NODES,
        PDBS,
        PODS,
        PRIORITY_CLASSES,
        REPLICA_SETS,
        REPLICATION_CONTROLLERS,
        SECRETS,
        SERVICES,
        STATEFUL_SETS,
        VALIDATING_WEBHOOKS,
    }
)
USUAL = BUILT_IN | {
    CLUSTER_NETWORK_TOPOLOGIES,
    DRAIN_NODES,
    DRAIN_NODE_GROUPS,
    NODE_METRICS,
    NODE_SLOS,
    NODE_TOPOLOGIES,
    DEVICES,
    POD_GROUPS,
    POD_MIGRATION_JOBS,
    RESERVATIONS,
}
"""What is served where a test says nothing else: kinds without a definition have no schema."""

STATUS_WITH_LABELS = frozenset(
    {
        NODES,
        PODS,
        NAMESPACES,
        PDBS,
        SERVICES,
        DEPLOYMENTS,
        REPLICATION_CONTROLLERS,
        REPLICA_SETS,
        STATEFUL_SETS,
    }
)
"""At whose ``/status`` labels and annotations may change too; the spec never may."""
WITH_STATUS = STATUS_WITH_LABELS | {
    CLUSTER_NETWORK_TOPOLOGIES,
    DRAIN_NODES,
    DRAIN_NODE_GROUPS,
    RESERVATIONS,
    API_SERVICES,
    DEFINITIONS,
    NODE_METRICS,
    NODE_SLOS,
    POD_MIGRATION_JOBS,
    RECOMMENDATIONS,
    RESOURCE_CLAIMS,
    *SCHEDULING_GROUPS,
}
"""Kinds with a status subresource; of others their definition says so."""
NEED_A_VERSION = frozenset(
    {LEASES, PDBS, DEFINITIONS, API_SERVICES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS}
)
"""Built-in kinds of which an update must say the version that it replaces."""


class Key(NamedTuple):
    """What identifies an object; ``namespace`` is "" for what has none."""

    resource: Resource
    namespace: str
    name: str


class Refused(Exception):
    """A request that fails; ``retry_after`` is in seconds, 0 for none.

    A cause without a field begins with its reason.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after: int = 0,
        causes: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status, self.reason, self.retry_after = status, reason, retry_after
        self.causes = causes

    def answer(self) -> web.Response:
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        if 300 < self.status < 400:
            headers["Location"] = "/elsewhere"
        return web.json_response(self.document(), status=self.status, headers=headers)

    def document(self) -> Object:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "details": {
                "causes": [_cause(*one) for one in self.causes],
                "retryAfterSeconds": self.retry_after,
            },
            "code": self.status,
        }


def _cause(field: str, message: str) -> Object:
    if field:
        return {"reason": "FieldValueInvalid", "message": message, "field": field}
    reason, _, message = message.partition(": ")
    return {"reason": reason, "message": message}


def bad_request(message: str) -> Refused:
    return Refused(400, "BadRequest", message)


def internal(message: str) -> Refused:
    return Refused(500, "InternalError", f"Internal error occurred: {message}")


def invalid(kind: str, name: str, *causes: tuple[str, str]) -> Refused:
    words = ", ".join(f"{field}: {message}" for field, message in causes)
    return Refused(422, "Invalid", f'{kind} "{name}" is invalid: {words}', causes=causes)


def not_found(key: Key) -> Refused:
    return Refused(404, "NotFound", f'{grouped(key.resource)} "{key.name}" not found')


def conflict(key: Key, why: str = "the object has been modified") -> Refused:
    message = f'Operation cannot be fulfilled on {grouped(key.resource)} "{key.name}": {why}'
    return Refused(409, "Conflict", message)


def api_version(resource: Resource) -> str:
    """What objects have in ``apiVersion``."""
    return f"{resource.group}/{resource.version}" if resource.group else resource.version


def grouped(resource: Resource) -> str:
    """The resource as refusals name it."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def copied(given: T) -> T:
    """The same document, of which nothing is shared; faster than ``copy.deepcopy``."""
    found: T = msgspec.json.decode(msgspec.json.encode(given))
    return found
