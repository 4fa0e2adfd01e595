"""Objects that hold our CA bundle, and what others may have written to them. No IO.

Ours are the webhooks of certain names, served or not, and of each that is served where it is, whom
to trust, what it is asked about, and what it means that nobody answers. Others may narrow it: more
conditions in selectors, and matchConditions; labels, annotations and webhooks of other names are
theirs as well. All that stays. What they loosen (a condition of ours that is gone) is put back.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import API_SERVICES, CONFIG_MAPS, Resource


@dataclass(frozen=True, slots=True)
class CABundleTarget:
    """An object with our CA bundle, and its desired state.

    ``desired`` gets it as it is (``None``: it is not there) and the bundle in PEM (empty: not
    ours to say); it gives it as it should be, or ``None`` where nothing is to be done. ``others``
    names what there is in it that somebody else has to serve.
    """

    resource: Resource
    name: str
    desired: Callable[[Object | None, bytes], Object | None]
    namespace: str = ""
    others: Callable[[Object], Sequence[str]] = lambda _: ()


def configuration_target(
    resource: Resource, document: Object, ours: Collection[str]
) -> CABundleTarget:
    """A Mutating- or ValidatingWebhookConfiguration, of whose document every field has a value.

    ``ours`` are the names of all webhooks that this program may serve: one of them that is not
    in the document is taken out, one of another name stays as it is.
    """
    return CABundleTarget(
        resource,
        document["metadata"]["name"],
        lambda found, pem: _configuration(document, found, ours, pem),
        others=lambda found: [str(webhook.get("name")) for webhook in _of_others(found, ours)],
    )


def api_service_target(name: str, service: str, namespace: str) -> CABundleTarget:
    """An APIService; it is installed by others, and only its caBundle is ours.

    One that names another Service trusts somebody else, and stays as it is.
    """
    return CABundleTarget(
        API_SERVICES,
        name,
        lambda found, pem: (
            _api_service(found, pem) if found and is_served_by(found, service, namespace) else None
        ),
    )


def is_served_by(api_service: Object, service: str, namespace: str) -> bool:
    """True if API servers ask this Service for the group of an APIService."""
    named = (api_service.get("spec") or {}).get("service") or {}
    return (named.get("name"), named.get("namespace")) == (service, namespace)


def config_map_target(name: str, namespace: str, key: str) -> CABundleTarget:
    """A ConfigMap with the CA bundle for other clients, under one of its keys."""
    meta = {"name": name, "namespace": namespace}
    ours = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    return CABundleTarget(
        CONFIG_MAPS, name, lambda found, pem: _config_map(found or ours, key, pem), namespace
    )


def _of_others(found: Object | None, ours: Collection[str]) -> list[Object]:
    return [
        webhook
        for webhook in (found or {}).get("webhooks") or []
        if webhook.get("name") not in ours
    ]


def _configuration(
    ours: Object, found: Object | None, names: Collection[str], pem: bytes
) -> Object:
    made = copy.deepcopy(found) if found is not None else copy.deepcopy(ours)
    before = {str(webhook.get("name")): webhook for webhook in (found or {}).get("webhooks") or []}
    made["webhooks"] = [
        *(
            _webhook(webhook, before.get(str(webhook["name"]), {}), pem)
            for webhook in ours["webhooks"]
        ),
        *copy.deepcopy(_of_others(found, names)),
    ]
    if found is not None:
        for kind in ("labels", "annotations"):
            if said := ours["metadata"].get(kind):
                made["metadata"][kind] = {**(made["metadata"].get(kind) or {}), **said}
    return made


def _webhook(ours: Object, before: Object, pem: bytes) -> Object:
    """One webhook; fields that neither side sets stay as the API server has filled them in."""
    made = {**before, **copy.deepcopy(ours)}
    for name in ("namespaceSelector", "objectSelector"):
        if name in ours or name in before:
            made[name] = _both(ours.get(name) or {}, before.get(name) or {})
    bundle = _encoded(pem) or (before.get("clientConfig") or {}).get("caBundle")
    made["clientConfig"].pop("caBundle", None)
    if bundle:
        made["clientConfig"]["caBundle"] = bundle
    return made


def _both(ours: Object, theirs: Object) -> Object:
    """A selector that asks for what either asks for; theirs first, as it is."""
    made = copy.deepcopy(theirs)
    if labels := {**(theirs.get("matchLabels") or {}), **(ours.get("matchLabels") or {})}:
        made["matchLabels"] = labels
    asked = ours.get("matchExpressions") or []
    # Another value of the same label asked for as well would leave nothing over.
    keys = {expression["key"] for expression in asked if expression["operator"] == "In"}
    expressions = [
        expression
        for expression in theirs.get("matchExpressions") or []
        if expression.get("operator") != "In" or expression.get("key") not in keys
    ]
    expressions += [expression for expression in asked if expression not in expressions]
    if expressions:
        made["matchExpressions"] = expressions
    return made


def _api_service(found: Object, pem: bytes) -> Object | None:
    if not pem:
        return None
    made = copy.deepcopy(found)
    spec: dict[str, Any] = made.setdefault("spec", {})
    spec["caBundle"] = _encoded(pem)
    # The API server takes either, not both.
    spec.pop("insecureSkipTLSVerify", None)
    return made


def _config_map(given: Object, key: str, pem: bytes) -> Object | None:
    if not pem:
        return None
    return {**given, "data": {**(given.get("data") or {}), key: pem.decode()}}


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
