"""Selectors in the query of a request: by labels and by the few fields that a kind offers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    SECRETS,
    Resource,
)
from koord_model.label_selector import LabelSelector, Operator, Requirement

from tests.support.kube_refusal import bad_request

_EVERY = {"metadata.name": "", "metadata.namespace": ""}

FIELDS: dict[Resource, dict[str, str]] = {
    PODS: {
        "spec.nodeName": "",
        "spec.restartPolicy": "",
        "spec.schedulerName": "",
        "spec.serviceAccountName": "",
        "spec.hostNetwork": "false",
        "status.phase": "",
        "status.podIP": "",
        "status.nominatedNodeName": "",
    },
    NODES: {"spec.unschedulable": "false"},
    NAMESPACES: {"status.phase": ""},
    REPLICA_SETS: {"status.replicas": "0"},
    SECRETS: {"type": ""},
    EVENTS: {
        "involvedObject.kind": "",
        "involvedObject.namespace": "",
        "involvedObject.name": "",
        "involvedObject.uid": "",
        "involvedObject.apiVersion": "",
        "involvedObject.resourceVersion": "",
        "involvedObject.fieldPath": "",
        "reason": "",
        "reportingComponent": "",
        "source": "",
        "type": "",
    },
}
"""What can be selected by beside name and namespace, and what it is where it is not said."""

_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(r"([^\s!=<>]+)\s*(==|=|!=)\s*([^\s!=<>]*)")
_PARTS = re.compile(r",(?![^(]*\))")
_LABEL = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class Key(NamedTuple):
    """What an object is called; ``namespace`` is "" for what has none."""

    resource: Resource
    namespace: str
    name: str


@dataclass(frozen=True)
class Field:
    """One field and what it has to be, or not to be."""

    path: str
    value: str
    wanted: bool

    def matches(self, key: Key, given: Object) -> bool:
        return (_said(self.path, key, given) == self.value) is self.wanted


@dataclass(frozen=True)
class Selection:
    """Which objects a list or a watch is about."""

    resource: Resource
    namespace: str = ""
    labels: LabelSelector | None = None
    fields: tuple[Field, ...] = ()

    def wants(self, key: Key, given: Object) -> bool:
        """Whether this object, as it is here, is among them."""
        if self.namespace not in ("", key.namespace):
            return False
        labels = given["metadata"].get("labels") or {}
        if self.labels is not None and not self.labels.matches(labels):
            return False
        return all(one.matches(key, given) for one in self.fields)

    @property
    def everything(self) -> bool:
        """Whether nothing but the namespace is asked for."""
        return self.labels is None and not self.fields


def selection(resource: Resource, namespace: str, query: Mapping[str, str]) -> Selection:
    """What the query of a request selects."""
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    parts = tuple(_field(resource, one) for one in fields.split(",") if one)
    return Selection(resource, namespace, label_selector(labels) if labels else None, parts)


def label_selector(text: str) -> LabelSelector:
    """The selector in its short form: ``a=b,c!=d,e in (f,g),h,!i``."""
    return LabelSelector(tuple(_requirement(part.strip()) for part in _PARTS.split(text)))


def _requirement(text: str) -> Requirement:
    found = _read(text)
    if not _LABEL.fullmatch(found.key):
        raise bad_request(f'unable to parse requirement: found "{text}"')
    return found


def _read(text: str) -> Requirement:
    if match := _SET.fullmatch(text):
        values = frozenset(one.strip() for one in match[3].split(","))
        return Requirement(match[1], Operator.IN if match[2] == "in" else Operator.NOT_IN, values)
    if match := _EQUAL.fullmatch(text):
        operator = Operator.NOT_IN if match[2] == "!=" else Operator.IN
        return Requirement(match[1], operator, frozenset({match[3]}))
    if text.startswith("!"):
        return Requirement(text[1:].strip(), Operator.DOES_NOT_EXIST)
    return Requirement(text, Operator.EXISTS)


def _field(resource: Resource, text: str) -> Field:
    match = _EQUAL.fullmatch(text)
    if match is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    if match[1] not in _EVERY and match[1] not in FIELDS.get(resource, {}):
        raise bad_request(f"field label not supported: {match[1]}")
    return Field(match[1], match[3], match[2] != "!=")


def _said(path: str, key: Key, given: Object) -> str:
    if path == "metadata.name":
        return key.name
    if path == "metadata.namespace":
        return key.namespace
    if path == "source":
        path = "source.component"
    found: Any = given
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    return FIELDS[key.resource].get(path, "") if found is None else str(found)
