"""Admission: the webhooks of the configurations are asked about each write, over HTTPS.

Mutating ones one after the other, by the names of their configurations, then validating
ones. A webhook that fails costs the write (500) or nothing, as its failurePolicy says. Not here:
URLs in configurations, matchConditions, reinvocation, warnings.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import jsonpatch
import jsonpointer
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from koord_model import label_selector

from tests.support.certificates import Certificates
from tests.support.kube_api.access import Identity
from tests.support.kube_api.kinds import REVIEWS, Causes, Key, Refused, internal

Services = dict[tuple[str, str, int], tuple[str, int]]
"""Namespace, name and port of a service, and the host and port where it really listens."""

_NEVER = REVIEWS | {MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}")


class FailedCallError(Exception):
    """A service cannot be asked, or does not answer as it should."""


def service_address(services: Services, reference: Mapping[str, Any], path: str) -> tuple[str, str]:
    """The URL of a service that an object refers to, and the name in its certificate."""
    namespace, name, port = reference["namespace"], reference["name"], reference.get("port", 443)
    found = services.get((namespace, name, port))
    if found is None:
        raise FailedCallError(f'service "{name}" not found')
    return f"https://{found[0]}:{found[1]}{path}", f"{name}.{namespace}.svc"


class Trust:
    """TLS contexts for the authorities in objects; ``client`` is what the server itself shows."""

    def __init__(self, client: Certificates | None = None) -> None:
        self._client = client
        self._contexts: dict[str, ssl.SSLContext] = {}

    def context(self, bundle: str) -> ssl.SSLContext:
        """``bundle`` is PEM in base64, "" for the system's authorities; else ``ValueError``."""
        if bundle not in self._contexts:
            try:
                text = base64.b64decode(bundle, validate=True).decode() if bundle else None
                made = ssl.create_default_context(cadata=text)
            except (ValueError, ssl.SSLError) as error:
                raise ValueError(f"unable to load root certificates: {error}") from None
            if self._client is not None:
                made.load_cert_chain(self._client.certificate, self._client.key)
            self._contexts[bundle] = made
        return self._contexts[bundle]


def bundle_causes(field: str, bundle: str) -> Causes:
    """What is wrong with a bundle of certificates."""
    try:
        Trust().context(bundle)
    except ValueError as error:
        return [(field, f"Invalid value: {error}")]
    return []


# Configurations.


def default(given: Object, *, mutating: bool) -> None:
    """What the server adds to a configuration."""
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


def check(_: Key, new: Object, __: Object | None) -> Causes:
    """What is wrong with a configuration."""
    webhooks = new.get("webhooks") or []
    found = [
        (f"webhooks[{index}].{field}", why)
        for index, one in enumerate(webhooks)
        for field, why in _wrong(one)
    ]
    if len({one.get("name") for one in webhooks}) < len(webhooks):
        found.append(("webhooks", "Duplicate value"))
    return found


def _wrong(one: Object) -> Iterator[tuple[str, str]]:
    client = one.get("clientConfig") or {}
    service = client.get("service") or {}
    needed = {"apiGroups", "apiVersions", "resources", "operations"}
    good = {
        "name": bool(_NAME.fullmatch(one.get("name", ""))),
        "admissionReviewVersions": "v1" in (one.get("admissionReviewVersions") or []),
        "sideEffects": one.get("sideEffects") in ("None", "NoneOnDryRun"),
        "failurePolicy": one["failurePolicy"] in ("Fail", "Ignore"),
        "timeoutSeconds": 1 <= one["timeoutSeconds"] <= 30,
        "clientConfig.service": bool(service.get("name") and service.get("namespace")),
        "rules": all(all(rule.get(field) for field in needed) for rule in one.get("rules") or []),
    }
    yield from ((field, "Invalid value") for field, is_good in good.items() if not is_good)
    for field in ("namespaceSelector", "objectSelector"):
        try:
            label_selector.parse(one[field], field)
        except ValueError as error:
            yield field, f"Invalid value: {error}"
    yield from bundle_causes("clientConfig.caBundle", client.get("caBundle") or "")


# Requests.


@dataclass(frozen=True)
class Attributes:
    """A write, as admission sees it; ``new`` is ``None`` for a deletion."""

    key: Key
    subresource: str
    operation: str
    new: Object | None
    old: Object | None
    who: Identity


@dataclass
class Admission:
    """``configurations`` are the mutating or the validating ones; ``namespace`` finds one."""

    configurations: Callable[[bool], Iterable[Object]]
    namespace: Callable[[str], Object | None]
    services: Services
    trust: Trust
    session: aiohttp.ClientSession | None = None

    async def mutate(self, write: Attributes) -> Object | None:
        """The object as the mutating webhooks change it."""
        for webhook in self._webhooks(write, mutating=True):
            answer = await self._ask(webhook, write)
            if answer.get("patch") is not None and write.new is not None:
                write = replace(write, new=_patched(write.new, answer["patch"]))
        return write.new

    async def validate(self, write: Attributes) -> None:
        """Refuse what one of the validating webhooks denies."""
        for webhook in self._webhooks(write, mutating=False):
            await self._ask(webhook, write)

    def _webhooks(self, write: Attributes, *, mutating: bool) -> list[Object]:
        if write.key.resource in _NEVER:
            return []
        namespace = self.namespace(write.key.namespace) if write.key.namespace else None
        return [
            webhook
            for configuration in self.configurations(mutating)
            for webhook in configuration.get("webhooks") or []
            if applies(webhook, write, namespace)
        ]

    async def _ask(self, webhook: Object, write: Attributes) -> Object:
        name, review = webhook["name"], _review(write)
        try:
            answer = read_answer(await self._post(webhook, review), review)
        except FailedCallError as error:
            if webhook["failurePolicy"] == "Ignore":
                return {}
            raise internal(f'failed calling webhook "{name}": {error}') from None
        if not answer.get("allowed"):
            status = answer.get("status") or {}
            why = status.get("message") or status.get("reason") or "without explanation"
            message = f'admission webhook "{name}" denied the request: {why}'
            code = max(int(status.get("code") or 0), 400)
            raise Refused(code, str(status.get("reason") or ""), message)
        return answer

    async def _post(self, webhook: Object, review: Object) -> Any:
        assert self.session is not None
        seconds, client = webhook["timeoutSeconds"], webhook["clientConfig"]
        try:
            service = client["service"]
            url, name = service_address(self.services, service, service.get("path") or "/")
            async with self.session.post(
                url,
                params={"timeout": f"{seconds}s"},
                data=json.dumps(review),
                headers={"Content-Type": "application/json"},
                ssl=self.trust.context(client.get("caBundle") or ""),
                server_hostname=name,
                timeout=aiohttp.ClientTimeout(total=seconds),
            ) as got:
                text = await got.read()
                got.raise_for_status()
                return json.loads(text)
        except TimeoutError:
            raise FailedCallError("context deadline exceeded") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise FailedCallError(f"failed to call webhook: {error}") from None


def applies(webhook: Object, write: Attributes, namespace: Object | None) -> bool:
    return (
        any(_matches(rule, write) for rule in webhook.get("rules") or [])
        and _in_namespace(webhook["namespaceSelector"], write, namespace)
        and _selects(webhook["objectSelector"], write)
    )


def _matches(rule: Mapping[str, Any], write: Attributes) -> bool:
    resource, sub = write.key.resource, write.subresource
    scope = "Namespaced" if resource.namespaced else "Cluster"
    about = f"{resource.plural}/{sub}" if sub else resource.plural
    names = {about, f"*/{sub}" if sub else "*", f"{resource.plural}/*" if sub else "", "*/*"}
    return (
        rule["scope"] in ("*", scope)
        and bool({"*", write.operation} & {*rule["operations"]})
        and bool({"*", resource.group} & {*rule["apiGroups"]})
        and bool({"*", resource.version} & {*rule["apiVersions"]})
        and bool(names & {*rule["resources"]})
    )


def _in_namespace(selector: Object, write: Attributes, namespace: Object | None) -> bool:
    if write.key.resource == NAMESPACES:
        namespace = write.new or write.old
    elif not write.key.resource.namespaced:
        return True
    labels = ((namespace or {}).get("metadata") or {}).get("labels") or {}
    if write.key.resource != NAMESPACES:
        labels = {"kubernetes.io/metadata.name": write.key.namespace, **labels}
    return label_selector.parse(selector, "namespaceSelector").matches(labels)


def _selects(selector: Object, write: Attributes) -> bool:
    """One of the two objects is enough: a webhook still hears of one that loses its label."""
    parsed = label_selector.parse(selector, "objectSelector")
    labels = [
        (one.get("metadata") or {}).get("labels") or {}
        for one in (write.new, write.old)
        if one is not None
    ]
    return not parsed.requirements or any(parsed.matches(one) for one in labels)


def _review(write: Attributes) -> Object:
    resource, key = write.key.resource, write.key
    kinds = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    about = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    optional = {
        "subResource": write.subresource,
        "requestSubResource": write.subresource,
        "name": key.name,
        "namespace": key.namespace,
    }
    request: Object = {
        "uid": str(uuid.uuid4()),
        "kind": kinds,
        "resource": about,
        "requestKind": kinds,
        "requestResource": about,
        **{name: value for name, value in optional.items() if value},
        "operation": write.operation,
        "userInfo": write.who.document,
        "object": write.new,
        "oldObject": write.old,
        "dryRun": False,
        "options": {},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def read_answer(given: Any, review: Object) -> Object:
    """The response, if it is one to this request."""
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    answer = given.get("response") if isinstance(given, dict) else None
    if not isinstance(answer, dict) or not head.items() <= given.items():
        raise FailedCallError(f"expected an AdmissionReview with a response, got {given!r:.200}")
    if answer.get("uid") != review["request"]["uid"]:
        raise FailedCallError(f"unexpected response.uid {answer.get('uid')!r}")
    if answer.get("patch") is None:
        return answer
    if answer.get("patchType") != "JSONPatch":
        raise FailedCallError(f"unknown patch type {answer.get('patchType')}")
    try:
        return {**answer, "patch": json.loads(base64.b64decode(answer["patch"], validate=True))}
    except (ValueError, TypeError) as error:
        raise FailedCallError(f"received undecodable patch: {error}") from None


def _patched(before: Object, patch: Any) -> Object:
    try:
        found: Object = jsonpatch.apply_patch(before, patch)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
        raise internal(f"the webhook's patch does not fit: {error}") from None
    return found
