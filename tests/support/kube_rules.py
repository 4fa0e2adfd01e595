"""What the real server's own code asks of objects: metadata for all, and a little for each kind.

The schemas of built-in kinds are not here, nor most of their defaults. What is here is what
a client of this project may run into: names and labels, what must not change, MicroTimes
that have to have microseconds, quantities, which the server writes in their short form.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    Resource,
)
from koord_model.quantity import milli

from tests.support.kube_kinds import BUILT_IN, api_version, grouped, qualified
from tests.support.kube_refusal import Refused, bad_request, conflict, invalid
from tests.support.kube_selecting import Key

_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_PART}(\.{_PART})*")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_ANNOTATIONS = 256 * 1024  # bytes
_HIGHEST_PRIORITY = 1_000_000_000
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)
_QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character"
)

Causes = list[tuple[str, str]]


def check_kind(resource: Resource, given: Any) -> None:
    """That what was sent is of this kind at all."""
    if not isinstance(given, dict) or not isinstance(given.get("metadata", {}), dict):
        raise bad_request("the body is no object with metadata")
    wanted = (api_version(resource), resource.kind)
    if resource in BUILT_IN:  # Of these it is clear from the path.
        given.setdefault("apiVersion", wanted[0])
        given.setdefault("kind", wanted[1])
    version, kind = given.get("apiVersion", ""), given.get("kind", "")
    if not version or not kind:
        raise bad_request(f"the object provided is unrecognized (must be of type {wanted[1]})")
    if version != wanted[0]:
        message = f"the API version in the data ({version}) does not match the expected API version"
        raise bad_request(f"{message} ({wanted[0]})")
    if kind != wanted[1] and resource in BUILT_IN:
        message = f'{kind} in version "{version}" cannot be handled as a {wanted[1]}'
        raise bad_request(message)
    if kind != wanted[1]:
        why = f'Invalid value: "{kind}": must be {wanted[1]}'
        name = given.get("metadata", {}).get("name", "")
        raise invalid(f"{kind}.{resource.group}", name, ("kind", why))


def check(key: Key, new: Object, before: Object | None) -> None:
    """That an object may be kept as it is; ``before`` is what it replaces.

    It is brought into the server's own form where that is a matter of spelling.
    """
    _decode(key, new)
    causes = _metadata(key, new["metadata"])
    rules = _RULES.get(key.resource)
    if rules is not None:
        causes += rules(key, new, before)
    if causes:
        raise invalid(qualified(key.resource), key.name, *causes)


def started(resource: Resource, new: Object) -> None:
    """The few defaults that an object of this kind is created with."""
    if resource == NAMESPACES:
        labels = new["metadata"].setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = new["metadata"].get("name", "")
        new["status"] = {"phase": "Active"}
    if resource == PODS:
        new["status"] = {"phase": "Pending"}
        spec = new.setdefault("spec", {})
        spec.setdefault("restartPolicy", "Always")
        spec.setdefault("terminationGracePeriodSeconds", 30)
        spec.setdefault("schedulerName", "default-scheduler")
        for container in spec.get("containers") or []:
            _default_requests(container.get("resources") or {})
    if resource == SECRETS:
        new.setdefault("type", "Opaque")


def _default_requests(resources: Object) -> None:
    """What is limited and not requested is requested as much as it is limited."""
    limits = resources.get("limits") or {}
    if limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _metadata(key: Key, meta: Object) -> Causes:
    causes: Causes = []
    if not (len(key.name) <= 253 and _SUBDOMAIN.fullmatch(key.name)):
        causes.append(("metadata.name", f'Invalid value: "{key.name}": {_SUBDOMAIN_RULE}'))
    for name, value in (meta.get("labels") or {}).items():
        causes += _qualified("metadata.labels", name)
        if value and not _NAME.fullmatch(value):
            rule = "a valid label must be an empty string or consist of alphanumeric characters"
            causes.append(("metadata.labels", f'Invalid value: "{value}": {rule}, at most 63'))
    annotations = meta.get("annotations") or {}
    for name in annotations:
        causes += _qualified("metadata.annotations", name.lower())
    if sum(len(name) + len(value) for name, value in annotations.items()) > _ANNOTATIONS:
        causes.append(("metadata.annotations", f"Too long: may not be more than {_ANNOTATIONS}"))
    return causes


def _qualified(field: str, name: str) -> Causes:
    prefix, slash, short = name.rpartition("/")
    wrong = bool(slash) and not _SUBDOMAIN.fullmatch(prefix)
    if wrong or not _NAME.fullmatch(short):
        return [(field, f'Invalid value: "{name}": {_QUALIFIED_RULE}')]
    return []


def _decode(key: Key, new: Object) -> None:
    """What the real one cannot even read into its types is a bad request."""
    for field in ("labels", "annotations"):
        for name, value in (new["metadata"].get(field) or {}).items():
            if not isinstance(value, str):
                kind = api_version(key.resource)
                message = f"{key.resource.kind} in version {kind!r} cannot be handled: "
                raise bad_request(f"{message}metadata.{field}.{name} is not a string")


def _micro_time(given: Object, field: str, where: str) -> None:
    value = given.get(field)
    if value is not None and not _MICRO_TIME.fullmatch(str(value)):
        message = f'parsing time "{value}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse'
        raise bad_request(f"{where}.{field}: {message}")


def _lease(_: Key, new: Object, __: Object | None) -> Causes:
    spec = new.get("spec") or {}
    _micro_time(spec, "renewTime", "spec")
    _micro_time(spec, "acquireTime", "spec")
    causes: Causes = []
    lasts, turns = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if lasts is not None and lasts <= 0:
        causes.append(("spec.leaseDurationSeconds", "Invalid value: must be greater than 0"))
    if turns is not None and turns < 0:
        causes.append(("spec.leaseTransitions", "Invalid value: must be greater than or equal 0"))
    return causes


def _event(key: Key, new: Object, _: Object | None) -> Causes:
    """The rules of core v1 for one without ``eventTime``, and those of its type."""
    _micro_time(new, "eventTime", "event")
    namespace = new.get("involvedObject", {}).get("namespace", "")
    # Those about what has no namespace are in "default".
    if namespace != key.namespace and (namespace or key.namespace != "default"):
        return [("involvedObject.namespace", "Invalid value: does not match event.namespace")]
    return []


def _config_map(_: Key, new: Object, before: Object | None) -> Causes:
    for name, value in (new.get("data") or {}).items():
        if not isinstance(value, str):
            raise bad_request(f"ConfigMap cannot be handled: data.{name} is not a string")
    return _data_keys(new) + _immutable(new, before)


def _secret(_: Key, new: Object, before: Object | None) -> Causes:
    data = new.get("data") or {}
    for name, value in (new.pop("stringData", None) or {}).items():
        data[name] = base64.b64encode(value.encode()).decode()
    if data:
        new["data"] = data
    for name, value in data.items():
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError):
            message = f"Secret cannot be handled: data.{name}: illegal base64 data"
            raise bad_request(message) from None
    causes = _data_keys(new) + _immutable(new, before)
    if before is not None and before.get("type") != new.get("type"):
        causes.append(("type", "Invalid value: field is immutable"))
    if new.get("type") == "kubernetes.io/tls":
        missing = [one for one in ("tls.crt", "tls.key") if one not in data]
        causes += [(f"data[{one}]", "Required value") for one in missing]
    return causes


def _data_keys(new: Object) -> Causes:
    names = [*(new.get("data") or {}), *(new.get("binaryData") or {})]
    bad = [one for one in names if len(one) > 253 or not _DATA_KEY.fullmatch(one)]
    return [(f"data[{one}]", "Invalid value: a valid config key is needed") for one in bad]


def _immutable(new: Object, before: Object | None) -> Causes:
    if before is None or not before.get("immutable"):
        return []
    same = all(before.get(one) == new.get(one) for one in ("data", "binaryData", "immutable"))
    return [] if same else [("data", "Forbidden: field is immutable when `immutable` is set")]


def _priority_class(_: Key, new: Object, before: Object | None) -> Causes:
    value = new.get("value", 0)
    if before is not None and before.get("value", 0) != value:
        return [("value", "Forbidden: may not be changed in an update.")]
    if value > _HIGHEST_PRIORITY:
        return [("value", f"Forbidden: maximum allowed value is {_HIGHEST_PRIORITY}")]
    return []


def _node(_: Key, new: Object, before: Object | None) -> Causes:
    causes: Causes = []
    status = new.get("status") or {}
    for field in ("capacity", "allocatable"):
        amounts = status.get(field) or {}
        for name, value in amounts.items():
            where = f"status.{field}.{name}"
            try:
                amounts[name] = canonical(value)
            except ValueError as error:
                raise bad_request(f"Node cannot be handled: {where}: {error}") from None
            if amounts[name].startswith("-"):
                causes.append((where, "Invalid value: must be greater than or equal to 0"))
            if _is_extended(name) and milli(value) % 1000:
                causes.append((where, "Invalid value: must be an integer"))
    old = ((before or {}).get("spec") or {}).get("providerID")
    if old and (new.get("spec") or {}).get("providerID") != old:
        causes.append(("spec.providerID", "Forbidden: node updates may not change providerID"))
    return causes


def _is_extended(name: str) -> bool:
    """Whether only whole ones of it can be had: it is not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name


_POD_CHANGES = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations")
_POD_RULE = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, "
    "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only "
    "additions to existing tolerations), `spec.terminationGracePeriodSeconds`"
)


def _pod(_: Key, new: Object, before: Object | None) -> Causes:
    spec = new.get("spec") or {}
    if before is None:
        return [] if spec.get("containers") else [("spec.containers", "Required value")]
    if _fixed(spec) != _fixed(before.get("spec") or {}):
        return [("spec", _POD_RULE)]
    tolerations = spec.get("tolerations") or []
    lost = [
        one for one in (before.get("spec") or {}).get("tolerations") or [] if one not in tolerations
    ]
    return [("spec.tolerations", "Forbidden: existing toleration can not be modified")][: len(lost)]


def _fixed(spec: Object) -> Object:
    kept = {name: value for name, value in spec.items() if name not in _POD_CHANGES}
    for field in ("containers", "initContainers"):
        found = kept.get(field) or []
        kept[field] = [{k: v for k, v in one.items() if k != "image"} for one in found]
    return kept


def canonical(quantity: Any) -> str:
    """A quantity as the server writes it: "1000m" is "1", "1024Mi" is "1Gi".

    Raises:
        ValueError: it is none.
    """
    thousandths = milli(quantity)
    text = str(quantity).strip()
    if re.search("[KMGTPE]i$", text) and thousandths % 1000 == 0:
        return _scaled(thousandths // 1000, 1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    if "e" in text or ("E" in text and not text.endswith("E")):
        return str(Decimal(text))
    return _scaled(thousandths, 1000, ("m", "", "k", "M", "G", "T", "P", "E"))


def _scaled(amount: int, base: int, suffixes: tuple[str, ...]) -> str:
    if amount == 0:
        return "0"
    for suffix in suffixes[:-1]:
        if amount % base:
            return f"{amount}{suffix}"
        amount //= base
    return f"{amount}{suffixes[-1]}"


def check_namespace(key: Key, given: Object) -> None:
    """That an object says no other namespace than its path."""
    said = given["metadata"].get("namespace") or ""
    if said not in ("", key.namespace):
        message = "the namespace of the provided object does not match the namespace sent"
        raise bad_request(f"{message} on the request")


def check_same(key: Key, before: Object, new: Object) -> None:
    """That an update is of this object, as it was when it was read."""
    meta, old = new["metadata"], before["metadata"]
    if meta.get("name") != key.name:
        said = f"the name of the object ({meta.get('name', '')})"
        raise bad_request(f"{said} does not match the name on the URL ({key.name})")
    check_namespace(key, new)
    version, uid = meta.get("resourceVersion", ""), meta.get("uid")
    if version and version != old["resourceVersion"]:
        if not re.fullmatch("[0-9]+", str(version)):
            raise Refused(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
        raise conflict(grouped(key.resource), key.name)
    if uid not in (None, "", old["uid"]):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['uid']}"
        raise conflict(grouped(key.resource), key.name, why)


_RULES: dict[Resource, Callable[[Key, Object, Object | None], Causes]] = {
    LEASES: _lease,
    EVENTS: _event,
    CONFIG_MAPS: _config_map,
    SECRETS: _secret,
    PRIORITY_CLASSES: _priority_class,
    NODES: _node,
    PODS: _pod,
}
