"""Admission: the webhooks that are configured are asked about each write, by HTTPS.

Mutating ones one after the other, by the names of their configurations, then validating
ones. A webhook that cannot be asked, or whose answer is none, costs the write (500) or
nothing, as its failurePolicy says. Their own configurations are never asked about.
"""

from __future__ import annotations

import base64
import binascii
import copy
import json
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS

from tests.support.kube_access import Identity
from tests.support.kube_kinds import REVIEWS
from tests.support.kube_outgoing import (
    Address,
    Services,
    Trust,
    UnreachableError,
    service_address,
)
from tests.support.kube_patching import apply_json_patch
from tests.support.kube_refusal import Refused, bad_request, internal
from tests.support.kube_webhooks import Attributes, applies

NEVER = REVIEWS | {MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS}


class _FailedError(Exception):
    """A webhook did not answer, or nothing that is an answer."""


@dataclass
class Admission:
    """``configurations`` are those of a kind, by name; ``namespace`` finds one by its name."""

    configurations: Callable[[bool], Iterable[Object]]
    namespace: Callable[[str], Object | None]
    services: Services
    trust: Trust = field(default_factory=Trust)
    session: aiohttp.ClientSession | None = None

    async def mutate(self, asked: Attributes, who: Identity, warnings: list[str]) -> Object | None:
        """The object as the mutating webhooks want it."""
        for webhook in self._webhooks(asked, mutating=True):
            answer = await self._ask(webhook, asked, who, warnings)
            if answer.get("patch") is not None and asked.new is not None:
                new = self._patched(asked.new, answer)
                asked = replace(asked, new=new)
        return asked.new

    async def validate(self, asked: Attributes, who: Identity, warnings: list[str]) -> None:
        """Refuse what one of the validating webhooks denies."""
        for webhook in self._webhooks(asked, mutating=False):
            await self._ask(webhook, asked, who, warnings)

    def _webhooks(self, asked: Attributes, *, mutating: bool) -> Iterable[Object]:
        """Whether the later ones are asked depends on what the earlier ones made of it."""
        if asked.key.resource in NEVER:
            return []
        namespace = self.namespace(asked.key.namespace) if asked.key.namespace else None
        return [
            webhook
            for configuration in self.configurations(mutating)
            for webhook in configuration.get("webhooks") or []
            if applies(webhook, asked, namespace)
        ]

    @staticmethod
    def _patched(given: Object, answer: Object) -> Object:
        try:
            found = apply_json_patch(given, answer["patch"])
        except ValueError as error:
            raise internal(str(error)) from None
        assert isinstance(found, dict)
        return found

    async def _ask(
        self, webhook: Object, asked: Attributes, who: Identity, warnings: list[str]
    ) -> Object:
        name = webhook["name"]
        if asked.dry_run and webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{name}" does not support dry run')
        review = _review(asked, who)
        try:
            answer = _answer(await self._post(webhook, review), review)
        except _FailedError as error:
            if webhook["failurePolicy"] == "Ignore":
                return {}
            raise internal(f'failed calling webhook "{name}": {error}') from None
        warnings += answer.get("warnings") or []
        if not answer.get("allowed"):
            raise _denied(name, answer.get("status") or {})
        return answer

    async def _post(self, webhook: Object, review: Object) -> Any:
        assert self.session is not None
        seconds = webhook["timeoutSeconds"]
        client = webhook["clientConfig"]
        try:
            address = _address(self.services, client)
            context = self.trust.context(client.get("caBundle") or "")
            async with self.session.post(
                address.url,
                params={"timeout": f"{seconds}s"},
                data=json.dumps(review),
                headers={"Content-Type": "application/json"},
                ssl=context,
                server_hostname=address.name or None,
                timeout=aiohttp.ClientTimeout(total=seconds),
            ) as got:
                text = await got.read()
        except TimeoutError:
            raise _FailedError("failed to call webhook: context deadline exceeded") from None
        except (aiohttp.ClientError, UnreachableError, OSError) as error:
            raise _FailedError(f"failed to call webhook: {error}") from None
        if got.status != 200:
            raise _FailedError(f"failed to call webhook: status {got.status}: {text[:200]!r}")
        try:
            return json.loads(text)
        except ValueError as error:
            raise _FailedError(f"failed to call webhook: {error}") from None


def _address(services: Services, client: Object) -> Address:
    if client.get("url") is not None:
        return Address(client["url"], "")
    service = client["service"]
    return service_address(services, service, service.get("path") or "/")


def _review(asked: Attributes, who: Identity) -> Object:
    resource, key = asked.key.resource, asked.key
    group, version, kind = asked.kind or (resource.group, resource.version, resource.kind)
    kinds = {"group": group, "version": version, "kind": kind}
    about = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    sub = {"subResource": asked.subresource} if asked.subresource else {}
    request_sub = {"requestSubResource": asked.subresource} if asked.subresource else {}
    request: Object = {
        "uid": str(uuid.uuid4()),
        "kind": kinds,
        "resource": about,
        **sub,
        "requestKind": kinds,
        "requestResource": about,
        **request_sub,
        **({"name": key.name} if key.name else {}),
        **({"namespace": key.namespace} if key.namespace else {}),
        "operation": asked.operation,
        "userInfo": who.document,
        "object": asked.new,
        "oldObject": asked.old,
        "dryRun": asked.dry_run,
        "options": asked.options,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _answer(given: Any, review: Object) -> Object:
    """The response, if it is one to this request."""
    if not isinstance(given, dict):
        raise _FailedError("the answer is no object")
    kind = (given.get("apiVersion"), given.get("kind"))
    if kind != ("admission.k8s.io/v1", "AdmissionReview"):
        raise _FailedError(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, "
            f"got {kind[0]}, Kind={kind[1]}"
        )
    answer, uid = given.get("response"), review["request"]["uid"]
    wrong = "received invalid webhook response"
    if not isinstance(answer, dict):
        raise _FailedError(f"{wrong}: webhook response was absent")
    if answer.get("uid") != uid:
        raise _FailedError(f'{wrong}: expected response.uid="{uid}", got "{answer.get("uid")}"')
    kind, patch = answer.get("patchType"), answer.get("patch")
    if (patch is None) is not (kind is None):
        both = ("response.patch", "response.patchType")
        has, lacks = both if kind is None else reversed(both)
        raise _FailedError(f"{wrong}: webhook returned {has} but not {lacks}")
    if kind not in (None, "JSONPatch"):
        raise _FailedError(f"{wrong}: unknown patch type {kind}")
    return {**copy.deepcopy(answer), "patch": None if patch is None else _operations(patch)}


def _operations(patch: Any) -> list[Any]:
    wrong = "received undecodable patch in webhook response"
    try:
        found = json.loads(base64.b64decode(patch, validate=True))
    except (ValueError, TypeError, binascii.Error) as error:
        raise _FailedError(f"{wrong}: {error}") from None
    if not isinstance(found, list):
        raise _FailedError(f"{wrong}: it is no list of operations")
    return found


def _denied(name: str, status: Object) -> Refused:
    said = status.get("message") or status.get("reason")
    denied = f'admission webhook "{name}" denied the request'
    message = f"{denied}: {said}" if said else f"{denied} without explanation"
    code = int(status.get("code") or 0)
    return Refused(max(code, 400), str(status.get("reason") or ""), message)
