"""Webhook configurations: what the server asks of them, and which requests they are about. No IO.

Not here: matchConditions, reinvocation, and the equivalence of versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import NAMESPACES
from koord_model import label_selector

from tests.support.kube_outgoing import check_bundle
from tests.support.kube_selecting import Key

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}")
_OPERATIONS = ("*", "CREATE", "UPDATE", "DELETE", "CONNECT")


@dataclass(frozen=True)
class Attributes:
    """A write, as admission sees it; ``new`` is ``None`` where something is deleted."""

    key: Key
    subresource: str
    operation: str
    new: Object | None
    old: Object | None
    dry_run: bool = False
    options: Object | None = None
    kind: tuple[str, str, str] | None = None
    """Group, version and kind of the object where they are not the resource's."""


def default(given: Object, *, mutating: bool) -> None:
    """What is not said is, as the server keeps it."""
    for one in given.get("webhooks") or []:
        one.setdefault("failurePolicy", "Fail")
        one.setdefault("matchPolicy", "Equivalent")
        one.setdefault("namespaceSelector", {})
        one.setdefault("objectSelector", {})
        one.setdefault("timeoutSeconds", 10)
        if mutating:
            one.setdefault("reinvocationPolicy", "Never")
        for rule in one.get("rules") or []:
            rule.setdefault("scope", "*")
        service = (one.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)


def check(_: Key, new: Object, __: Object | None = None) -> list[tuple[str, str]]:
    """What is wrong with a configuration."""
    webhooks = new.get("webhooks") or []
    names = [one.get("name", "") for one in webhooks]
    found = [
        ("webhooks", f'Duplicate value: "{one}"') for one in set(names) if names.count(one) > 1
    ]
    for index, one in enumerate(webhooks):
        found += [(f"webhooks[{index}].{field}", why) for field, why in _wrong(one)]
    return found


def _wrong(one: Object) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(one.get("name", "")):
        yield "name", "Invalid value: should be a domain with at least three segments"
    if "v1" not in (one.get("admissionReviewVersions") or []):
        yield "admissionReviewVersions", "Invalid value: must include at least one of v1, v1beta1"
    if one.get("sideEffects") not in ("None", "NoneOnDryRun"):
        yield "sideEffects", "Unsupported value: supported values: None, NoneOnDryRun"
    if one["failurePolicy"] not in ("Fail", "Ignore"):
        yield "failurePolicy", "Unsupported value: supported values: Fail, Ignore"
    if not 1 <= one["timeoutSeconds"] <= 30:
        yield "timeoutSeconds", "Invalid value: the timeout must be between 1 and 30 seconds"
    for field in ("namespaceSelector", "objectSelector"):
        try:
            label_selector.parse(one[field], field)
        except ValueError as error:
            yield field, f"Invalid value: {error}"
    yield from _client(one.get("clientConfig") or {})
    for index, rule in enumerate(one.get("rules") or []):
        yield from _rule(rule, f"rules[{index}]")


def _client(client: Object) -> Iterator[tuple[str, str]]:
    url, service = client.get("url"), client.get("service")
    if (url is None) is (service is None):
        yield "clientConfig", "Required value: exactly one of url or service is required"
    if url is not None and not url.startswith("https://"):
        yield (
            "clientConfig.url",
            f"Invalid value: \"{url}\": 'https' is the only allowed URL scheme",
        )
    if service is not None:
        for field in ("name", "namespace"):
            if not service.get(field):
                yield f"clientConfig.service.{field}", "Required value"
    why = check_bundle(client.get("caBundle") or "")
    if why:
        yield "clientConfig.caBundle", f"Invalid value: {why}"


def _rule(rule: Object, where: str) -> Iterator[tuple[str, str]]:
    for field in ("apiGroups", "apiVersions", "resources", "operations"):
        if not rule.get(field):
            yield f"{where}.{field}", "Required value"
    for field in ("apiGroups", "apiVersions", "operations"):
        words = rule.get(field) or []
        if "*" in words and len(words) > 1:
            yield f"{where}.{field}", "Invalid value: if '*' is present, must not specify others"
    for one in rule.get("operations") or []:
        if one not in _OPERATIONS:
            yield f"{where}.operations", f'Unsupported value: "{one}"'


def applies(webhook: Object, asked: Attributes, namespace: Object | None) -> bool:
    """Whether a webhook is asked about a write; ``namespace`` is the one it is in."""
    return (
        any(_matches(rule, asked) for rule in webhook.get("rules") or [])
        and _in_namespace(webhook["namespaceSelector"], asked, namespace)
        and _selects(webhook["objectSelector"], asked)
    )


def _matches(rule: Mapping[str, Any], asked: Attributes) -> bool:
    resource, sub = asked.key.resource, asked.subresource
    scope = "Namespaced" if resource.namespaced else "Cluster"
    return (
        rule["scope"] in ("*", scope)
        and _has(rule["operations"], asked.operation)
        and _has(rule["apiGroups"], resource.group)
        and _has(rule["apiVersions"], resource.version)
        and any(_is_about(one, resource.plural, sub) for one in rule["resources"])
    )


def _is_about(said: str, plural: str, sub: str) -> bool:
    if said == "*/*":
        return True
    first, _, second = said.partition("/")
    return first in ("*", plural) and (second == sub or (second == "*" and bool(sub)))


def _has(words: list[str], one: str) -> bool:
    return "*" in words or one in words


def _in_namespace(selector: Object, asked: Attributes, namespace: Object | None) -> bool:
    if asked.key.resource == NAMESPACES:
        namespace = asked.new or asked.old
    elif not asked.key.resource.namespaced:
        return True
    labels = ((namespace or {}).get("metadata") or {}).get("labels") or {}
    if asked.key.resource != NAMESPACES:
        labels = {"kubernetes.io/metadata.name": asked.key.namespace, **labels}
    return label_selector.parse(selector, "namespaceSelector").matches(labels)


def _selects(selector: Object, asked: Attributes) -> bool:
    """Either of the two objects is enough: what loses its label is still asked about."""
    parsed = label_selector.parse(selector, "objectSelector")
    found = [one for one in (asked.new, asked.old) if one is not None]
    labels = [(one.get("metadata") or {}).get("labels") or {} for one in found]
    return not parsed.requirements or any(parsed.matches(one) for one in labels)
