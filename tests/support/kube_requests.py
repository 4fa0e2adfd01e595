"""A request to the double of the API server: what it is about, and what a test does to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from koord_kube.protocol.resources import PODS, Resource

from tests.support.kube_kinds import BUILT_IN, REVIEWS
from tests.support.kube_patching import kinds
from tests.support.kube_refusal import Refused, bad_request
from tests.support.kube_selecting import Key


@dataclass
class Fault:
    """What the next ``times`` requests of ``verb`` about ``plural`` get; "" is any.

    With a ``token`` only the requests of whoever shows it.

    With ``status`` that answer; with ``hang`` none; otherwise the true one, ``slow``
    seconds late.
    """

    times: int = 1
    status: int = 0
    retry_after: int = 0
    message: str = "this is a test"
    slow: float = 0.0
    hang: bool = False
    verb: str = ""
    plural: str = ""
    token: str = ""

    def takes(self, verb: str, plural: str, token: str) -> bool:
        """Whether it is this one's turn; then it is used up by one."""
        wanted = (
            self.times > 0
            and self.verb in ("", verb)
            and self.plural in ("", plural)
            and self.token in ("", token)
        )
        self.times -= wanted
        return wanted


@dataclass(frozen=True)
class Asked:
    """A request; ``verb`` as Kubernetes names it: get, list, watch, create, update, patch..."""

    verb: str
    path: str
    query: Mapping[str, str]
    body: Any = None
    token: str = ""


@dataclass(frozen=True)
class Found:
    """What a path is about; without a name it is about all of them."""

    key: Key
    subresource: str = ""


def find(path: str, installed: Iterable[Resource], with_status: Iterable[Resource]) -> Found | None:
    """What a path is about; ``None`` where there is no such thing."""
    parts = path.split("/")[1:]
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (group == "" and rest[2] == "status"):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or "" in rest:
        return None
    name, sub = [*rest[1:], "", ""][:2]
    here = (group, version, rest[0])
    for resource in installed:
        if (resource.group, resource.version, resource.plural) == here:
            scoped = bool(namespace) if resource.namespaced and name else True
            if (namespace and not resource.namespaced) or not scoped:
                continue
            if sub and not _has_subresource(resource, sub, with_status):
                continue
            return Found(Key(resource, namespace, name), sub)
    return None


def _has_subresource(resource: Resource, sub: str, with_status: Iterable[Resource]) -> bool:
    if sub == "status":
        return resource in with_status
    return sub == "eviction" and resource == PODS


_WORDS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def verb_of(request: web.Request, found: Found | None) -> str:
    """The verb as Kubernetes' rules have it."""
    named = found is not None and bool(found.key.name)
    if request.method == "GET" and not named:
        return "watch" if request.query.get("watch") in ("true", "1") else "list"
    if request.method == "DELETE" and found is not None and not named:
        return "deletecollection"
    return _WORDS.get(request.method, request.method.lower())


def check_method(verb: str, found: Found) -> None:
    """Refuse what cannot be done there at all."""
    key, sub = found.key, found.subresource
    wrong = (
        (verb == "create" and bool(key.name) is not bool(sub))
        or (verb == "create" and key.resource.namespaced and not key.namespace)
        or (verb in ("update", "patch") and not key.name)
        or (verb == "delete" and bool(sub))
        or (sub == "eviction" and verb != "create")
        or (sub == "status" and verb == "create")
        or (key.resource in REVIEWS and verb != "create")
    )
    if wrong:
        message = "the server does not allow this method on the requested resource"
        raise Refused(405, "MethodNotAllowed", message)


def check_own_groups(path: str) -> None:
    """Below a group of the server's own it says itself that there is nothing; elsewhere nobody."""
    if any(path.startswith(one.path().rpartition("/")[0] + "/") for one in BUILT_IN):
        raise Refused(404, "NotFound", "the server could not find the requested resource")


def read_body(request: web.Request, raw: bytes, found: Found | None) -> Any:
    """What was sent, if it is of a type that is taken there."""
    if request.method == "GET" or (request.method == "DELETE" and not raw):
        return None
    wanted: tuple[str, ...] = ("application/json",)
    if request.method == "PATCH":
        wanted = kinds(found is not None and found.key.resource not in BUILT_IN)
    if request.method != "DELETE" and request.content_type not in wanted:
        words = ", ".join(wanted)
        message = (
            "the body of the request was in an unknown format - "
            f"accepted media types include: {words}"
        )
        raise Refused(415, "UnsupportedMediaType", message)
    try:
        return json.loads(raw)
    except ValueError as error:
        raise bad_request(str(error)) from None
