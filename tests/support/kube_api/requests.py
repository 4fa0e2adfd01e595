"""Requests to the double: what each is about, what it selects, and which of them fail."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiohttp import web
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import EVENTS, PODS, REPLICATION_CONTROLLERS, Resource
from koord_model.label_selector import LabelSelector, Operator, Requirement

from tests.support.kube_api.kinds import BUILT_IN, REVIEWS, Causes, Key, Refused, bad_request

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_FIELDS = {
    PODS: {"spec.nodeName", "status.phase"},
    EVENTS: {"involvedObject.uid", "reason"},
}
"""What can be selected by, beside name and namespace."""
_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(r"([^\s!=<>]+)\s*(==|=|!=)\s*([^\s!=<>]*)")
_PARTS = re.compile(r",(?![^(]*\))")
_KEY = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_MATCH, _INITIAL, _NOT_OLDER = "resourceVersionMatch", "sendInitialEvents", "NotOlderThan"


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
        matches = (
            self.times > 0
            and self.verb in ("", verb)
            and self.plural in ("", plural)
            and self.token in ("", token)
        )
        self.times -= matches
        return matches


@dataclass(frozen=True)
class RecordedRequest:
    """``verb`` is as Kubernetes names it: get, list, watch, create, update, patch..."""

    verb: str
    path: str
    query: Mapping[str, str]
    body: Any = None
    token: str = ""


class Route(NamedTuple):
    """What a path is about; without a name it is about all of them."""

    key: Key
    subresource: str = ""


def find(path: str, installed: Iterable[Resource], with_status: Iterable[Resource]) -> Route | None:
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
    for resource in installed:
        if (resource.group, resource.version, resource.plural) != (group, version, rest[0]):
            continue
        misplaced = bool(namespace) and not resource.namespaced
        unplaced = bool(name) and resource.namespaced and not namespace
        of_pods = resource == PODS
        known = {
            "": True,
            "status": resource in with_status,
            "eviction": of_pods,
            "binding": of_pods,
            "resize": of_pods,
            "scale": resource.group == "apps" or resource == REPLICATION_CONTROLLERS,
        }
        if not misplaced and not unplaced and known.get(sub):
            return Route(Key(resource, namespace, name), sub)
    return None


def verb_of(request: web.Request, route: Route | None) -> str:
    """The verb as Kubernetes' rules have it."""
    if request.method != "GET":
        return _VERBS.get(request.method, request.method.lower())
    if route is not None and route.key.name:
        return "get"
    return "watch" if request.query.get("watch") in ("true", "1") else "list"


def check_method(verb: str, route: Route) -> None:
    """Refuse what cannot be done there at all."""
    key, sub = route.key, route.subresource
    wrong = (
        (verb == "create" and bool(key.name) is not bool(sub))
        or (verb == "create" and key.resource.namespaced and not key.namespace)
        or (verb in ("update", "patch", "delete") and not key.name)
        or (verb == "delete" and bool(sub))
        or (sub in ("eviction", "binding") and verb != "create")
        or (sub in ("status", "resize") and verb == "create")
        or (sub == "scale" and verb != "get")
        or (key.resource in REVIEWS and verb != "create")
    )
    if wrong:
        message = "the server does not allow this method on the requested resource"
        raise Refused(405, "MethodNotAllowed", message)


def refuse_unknown(path: str) -> web.Response:
    """Of a group of its own the server itself says that there is nothing; elsewhere nobody does."""
    if any(path.startswith(one.path().rpartition("/")[0] + "/") for one in BUILT_IN):
        raise Refused(404, "NotFound", "the server could not find the requested resource")
    return web.Response(status=404, text="404 page not found\n")


def list_option_causes(query: Mapping[str, str], *, watch: bool, streams_lists: bool) -> Causes:
    """What is wrong with the options of a list or a watch."""
    match, initial = query.get(_MATCH, ""), query.get(_INITIAL, "")
    version, more = query.get("resourceVersion", ""), query.get("continue", "")
    supported = ("", _NOT_OLDER) if watch else ("", "Exact", _NOT_OLDER)
    wrong = [(_MATCH, f'Unsupported value: "{match}"', match not in supported)]
    if watch:
        wrong += [
            (_MATCH, f"Forbidden: {_INITIAL} requires it", bool(initial) and match != _NOT_OLDER),
            (_INITIAL, "Forbidden: WatchList is disabled", bool(initial) and not streams_lists),
            (_MATCH, f"Forbidden: it requires {_INITIAL}", bool(match) and not initial),
        ]
    else:
        wrong += [
            (_MATCH, "Forbidden: it requires a version", bool(match) and not version),
            (_MATCH, "Forbidden: together with continue", bool(match) and bool(more)),
            (_MATCH, 'Forbidden: "Exact" with version "0"', (match, version) == ("Exact", "0")),
            (_INITIAL, "Forbidden: of a list", bool(initial)),
        ]
    return [(field, why) for field, why, is_wrong in wrong if is_wrong]


class FieldTerm(NamedTuple):
    """A field, and the value that it has, or has not, to have."""

    path: str
    value: str
    equal: bool

    def matches(self, key: Key, given: Object) -> bool:
        return (_value(self.path, key, given) == self.value) is self.equal


@dataclass(frozen=True)
class Selection:
    """Which objects a list or a watch is about."""

    resource: Resource
    namespace: str = ""
    labels: LabelSelector | None = None
    fields: tuple[FieldTerm, ...] = ()

    def selects(self, key: Key, given: Object) -> bool:
        if self.namespace not in ("", key.namespace):
            return False
        labels = given["metadata"].get("labels") or {}
        if self.labels is not None and not self.labels.matches(labels):
            return False
        return all(one.matches(key, given) for one in self.fields)


def selection(key: Key, query: Mapping[str, str]) -> Selection:
    """What the query of a request selects."""
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    terms = tuple(_term(key.resource, one) for one in fields.split(",") if one)
    parts = tuple(_requirement(one.strip()) for one in _PARTS.split(labels)) if labels else ()
    return Selection(key.resource, key.namespace, LabelSelector(parts) if parts else None, terms)


def _requirement(text: str) -> Requirement:
    """One part of a label selector in its short form: ``a=b,c!=d,e in (f,g),h,!i``."""
    if match := _SET.fullmatch(text):
        values = frozenset(one.strip() for one in match[3].split(","))
        operator = Operator.IN if match[2] == "in" else Operator.NOT_IN
        found = Requirement(match[1], operator, values)
    elif match := _EQUAL.fullmatch(text):
        operator = Operator.NOT_IN if match[2] == "!=" else Operator.IN
        found = Requirement(match[1], operator, frozenset({match[3]}))
    elif text.startswith("!"):
        found = Requirement(text[1:].strip(), Operator.DOES_NOT_EXIST)
    else:
        found = Requirement(text, Operator.EXISTS)
    if not _KEY.fullmatch(found.key):
        raise bad_request(f'unable to parse requirement: found "{text}"')
    return found


def _term(resource: Resource, text: str) -> FieldTerm:
    match = _EQUAL.fullmatch(text)
    known = {"metadata.name", "metadata.namespace"} | _FIELDS.get(resource, set())
    if match is None or match[1] not in known:
        raise bad_request(f"field label not supported: {text}")
    return FieldTerm(match[1], match[3], match[2] != "!=")


def _value(path: str, key: Key, given: Object) -> str:
    if path == "metadata.name":
        return key.name
    if path == "metadata.namespace":
        return key.namespace
    found: Any = given
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return str(found or "")
