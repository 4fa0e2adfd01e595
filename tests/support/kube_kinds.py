"""The kinds that every API server has, and what is special about each."""

from __future__ import annotations

from koord_kube.protocol.resources import (
    ACCESS_REVIEWS,
    API_SERVICES,
    CONFIG_MAPS,
    DEFINITIONS,
    DEVICES,
    ENDPOINT_SLICES,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODE_METRICS,
    NODE_SLOS,
    NODE_TOPOLOGIES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RECOMMENDATIONS,
    REPLICA_SETS,
    SECRETS,
    TOKEN_REVIEWS,
    VALIDATING_WEBHOOKS,
    Resource,
)

from tests.support.kube_evictions import PDBS

SELF_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview"
)
REVIEWS = frozenset({TOKEN_REVIEWS, ACCESS_REVIEWS, SELF_REVIEWS})
"""Questions: they are answered, and not kept."""

BUILT_IN = REVIEWS | {
    API_SERVICES,
    CONFIG_MAPS,
    DEFINITIONS,
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
    SECRETS,
    VALIDATING_WEBHOOKS,
}

USUAL = BUILT_IN | {NODE_METRICS, NODE_SLOS, NODE_TOPOLOGIES, DEVICES}
"""What is there where a test says nothing else: kinds without a definition have no schema."""

STATUS_WITH_LABELS = frozenset({NODES, PODS, NAMESPACES, REPLICA_SETS, PDBS})
"""At whose ``/status`` labels and annotations may change too; the spec never may."""

WITH_STATUS = STATUS_WITH_LABELS | {
    API_SERVICES,
    DEFINITIONS,
    NODE_METRICS,
    NODE_SLOS,
    RECOMMENDATIONS,
}
"""Whose definitions have the status subresource; of others their definitions here say it."""

STATUS_AT_CREATION = frozenset({NODES})
"""A node may be made with its status; of all others the one given is dropped."""

NEED_A_VERSION = frozenset(
    {LEASES, PDBS, DEFINITIONS, API_SERVICES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS}
)
"""Which built-in kinds refuse an update that does not say what it replaces."""

MADE_BY_UPDATE = frozenset({LEASES, EVENTS})
"""Which an update makes where they are not there."""

ANSWER_WITH_THE_DELETED = frozenset({PODS})
"""Who is deleted and answered with; of the others a Status says that it was done."""

SHORT = {
    NODES: ["no"],
    PODS: ["po"],
    EVENTS: ["ev"],
    NAMESPACES: ["ns"],
    CONFIG_MAPS: ["cm"],
    REPLICA_SETS: ["rs"],
    PRIORITY_CLASSES: ["pc"],
    DEFINITIONS: ["crd", "crds"],
    PDBS: ["pdb"],
}
"""The short names that kubectl learns."""


def api_version(resource: Resource) -> str:
    """What objects have in ``apiVersion``."""
    return f"{resource.group}/{resource.version}" if resource.group else resource.version


def qualified(resource: Resource) -> str:
    """The kind as refusals name it."""
    return f"{resource.kind}.{resource.group}" if resource.group else resource.kind


def grouped(resource: Resource) -> str:
    """The resource as refusals name it."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
