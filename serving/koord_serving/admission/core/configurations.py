"""Webhook configurations, made from a table of webhooks. No IO.

Every field but ``caBundle`` has a value, the API server's default too: what is read back equals
what was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from koord_serving.admission.core.admission import AdmissionOperation, V, Webhook

Object = dict[str, Any]

MUTATING_NAME = "koordinator-mutating-webhook-configuration"
VALIDATING_NAME = "koordinator-validating-webhook-configuration"

FRAMEWORK = "WebhookFramework"
"""The gate of all webhooks."""

_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_CONTROL_PLANE = "control-plane"
_SYSTEM = "kube-system"


@dataclass(frozen=True, slots=True)
class WebhookDefinition(Generic[V]):
    """One webhook; ``gate`` switches it on.

    ``fails`` is whether what it guards is refused while no webhook server answers. ``labelled`` is
    the
    label, and its value, that objects must have for it to be asked. ``in_control_plane`` is
    whether it is asked about namespaces labelled ``control-plane`` as well, ``in_own`` about
    the manager's, ``everywhere`` about all. Namespaces mean nothing for objects without one
    (``namespaced``). ``subresources`` are asked about beside the object itself. ``writes`` is
    whether it may write something itself, except in a dry run.
    """

    name: str
    path: str
    handler: Webhook[V]
    gate: str
    resource: str
    operations: tuple[AdmissionOperation, ...]
    mutating: bool
    fails: bool
    group: str = ""
    version: str = "v1"
    subresources: tuple[str, ...] = ()
    labelled: tuple[str, str] | None = None
    namespaced: bool = True
    in_control_plane: bool = True
    in_own: bool = False
    everywhere: bool = False
    writes: bool = False
    seconds: int = 5


@dataclass(frozen=True, slots=True)
class WebhookClientConfig:
    """Address of the webhooks for API servers; the bundle to trust is added when it is known.

    That is a Service in ``namespace``, the manager's, or else ``url`` ("https://host:port").
    """

    namespace: str
    service: str = "koordinator-webhook-service"
    port: int = 443
    url: str = ""

    def at(self, path: str) -> Object:
        """Of one webhook, as its configuration has it."""
        if self.url:
            return {"url": f"{self.url}{path}"}
        where = {"namespace": self.namespace, "name": self.service, "port": self.port, "path": path}
        return {"service": where}


def served(
    table: Iterable[WebhookDefinition[V]], gates: Mapping[str, bool]
) -> tuple[WebhookDefinition[V], ...]:
    """The rows that are switched on."""
    if not gates[FRAMEWORK]:
        return ()
    return tuple(row for row in table if gates[row.gate])


def configurations(
    table: Iterable[WebhookDefinition[Any]],
    gates: Mapping[str, bool],
    client_config: WebhookClientConfig,
) -> tuple[Object, Object]:
    """The mutating and the validating configuration, of what is switched on.

    Pods of kube-system, and of the manager itself, are never in question: the cluster and the
    manager start without anybody to ask.
    """
    rows = served(table, gates)
    mutating = [_webhook(row, client_config) for row in rows if row.mutating]
    validating = [_webhook(row, client_config) for row in rows if not row.mutating]
    return (
        _document("MutatingWebhookConfiguration", MUTATING_NAME, mutating),
        _document("ValidatingWebhookConfiguration", VALIDATING_NAME, validating),
    )


def _document(kind: str, name: str, webhooks: list[Object]) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": webhooks,
    }


def _webhook(row: WebhookDefinition[Any], client_config: WebhookClientConfig) -> Object:
    found: Object = {
        "name": row.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config.at(row.path),
        "failurePolicy": "Fail" if row.fails else "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": _namespaces(row, client_config.namespace),
        "objectSelector": _objects(row),
        "rules": [
            {
                "apiGroups": [row.group],
                "apiVersions": [row.version],
                "operations": [str(operation) for operation in row.operations],
                "resources": [
                    row.resource,
                    *(f"{row.resource}/{subresource}" for subresource in row.subresources),
                ],
                "scope": "*",
            }
        ],
        "sideEffects": "NoneOnDryRun" if row.writes else "None",
        "timeoutSeconds": row.seconds,
    }
    return {**found, "reinvocationPolicy": "Never"} if row.mutating else found


def _namespaces(row: WebhookDefinition[Any], own: str) -> Object:
    if row.everywhere or not row.namespaced:
        return {}
    out = [_SYSTEM] if row.in_own else sorted({_SYSTEM, own})
    expressions: list[Object] = [{"key": _NAMESPACE_NAME, "operator": "NotIn", "values": out}]
    if not row.in_control_plane:
        expressions.append({"key": _CONTROL_PLANE, "operator": "DoesNotExist"})
    return {"matchExpressions": expressions}


def _objects(row: WebhookDefinition[Any]) -> Object:
    if row.labelled is None:
        return {}
    key, value = row.labelled
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
