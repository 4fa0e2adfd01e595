"""What the server's own code asks of objects: metadata of all, and a little of each kind.

The schemas of built-in kinds are not here. What is here is what our programs could break: names
and labels, MicroTimes, texts that have to be texts, quantities (which the server rewrites to
their short form), the priority that a pod's class gives it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    SECRETS,
    Resource,
)
from koord_model.quantity import milli

from tests.support.kube_api.kinds import (
    BUILT_IN,
    Causes,
    Key,
    Refused,
    api_version,
    bad_request,
    conflict,
    invalid,
)

_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_PART}(\.{_PART})*")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_ANNOTATIONS = 256 * 1024  # bytes


def check_kind(resource: Resource, given: Any) -> None:
    """That what was sent is of this kind at all; built-in ones need not say it."""
    if not isinstance(given, dict) or not isinstance(given.get("metadata", {}), dict):
        raise bad_request("the body is no object with metadata")
    kind = {"apiVersion": api_version(resource), "kind": resource.kind}
    sent = {name: given.get(name) for name in kind}
    if resource in BUILT_IN:
        for name, value in kind.items():
            given.setdefault(name, value)
        sent = {name: given[name] for name in kind}
    if sent != kind:
        raise bad_request(f"{sent} does not match the expected {kind}")


def started(resource: Resource, new: Object) -> None:
    """The defaults of new pods."""
    if resource != PODS:
        return
    new["status"] = {"phase": "Pending"}
    spec = new.setdefault("spec", {})
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    for container in spec.get("containers") or []:
        resources = container.get("resources") or {}
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **(resources.get("requests") or {})}


def prioritize(pod: Object, classes: Iterable[Object]) -> None:
    """The Priority plugin: a new pod's number is that of its class, and no other is let in."""
    spec = pod.setdefault("spec", {})
    name = spec.get("priorityClassName") or ""
    values = {"": 0} | {one["metadata"]["name"]: one["value"] for one in classes}
    if spec.get("priority", values.get(name)) != values.get(name):
        why = f"priority is {spec['priority']}, but of class {name!r} it is {values.get(name)}"
        raise Refused(403, "Forbidden", f"pods is forbidden: {why}")
    if name not in values:
        raise Refused(403, "Forbidden", f"no PriorityClass with name {name} was found")
    spec["priority"] = values[name]


def check_same(key: Key, before: Object, new: Object) -> None:
    """That an update is of this object, and of the version that is there."""
    meta, old = new["metadata"], before["metadata"]
    if meta.get("name") != key.name:
        raise bad_request(f"the name of the object is not that of the URL ({key.name})")
    check_namespace(key, new)
    if meta.get("resourceVersion") not in (None, "", old["resourceVersion"]):
        raise conflict(key)
    check_uid(key, before, meta.get("uid"))


def check_uid(key: Key, before: Object, uid: str | None) -> None:
    theirs = before["metadata"]["uid"]
    if uid not in (None, "", theirs):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {theirs}"
        raise conflict(key, why)


def check_namespace(key: Key, given: Object) -> None:
    """That an object has the namespace of its path, or none."""
    if (given["metadata"].get("namespace") or "") not in ("", key.namespace):
        raise bad_request("the namespace of the object does not match that of the request")


def check(key: Key, new: Object) -> None:
    """That an object may be kept; quantities of Nodes get the server's own form."""
    causes = _metadata(key, new["metadata"])
    rule = _RULES.get(key.resource)
    if rule is not None:
        causes += rule(key, new)
    if causes:
        raise invalid(key.resource.kind, key.name, *causes)


def _metadata(key: Key, meta: Object) -> Causes:
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    _check_texts("metadata.labels", labels)
    _check_texts("metadata.annotations", annotations)
    good = {
        "metadata.name": len(key.name) <= 253 and bool(_SUBDOMAIN.fullmatch(key.name)),
        "metadata.labels": all(_qualified(name) for name in labels)
        and all(_NAME.fullmatch(value) for value in labels.values() if value),
        "metadata.annotations": all(_qualified(name.lower()) for name in annotations)
        and sum(len(name) + len(value) for name, value in annotations.items()) <= _ANNOTATIONS,
    }
    return [(field, "Invalid value") for field, is_good in good.items() if not is_good]


def _qualified(name: str) -> bool:
    prefix, slash, short = name.rpartition("/")
    return bool(_NAME.fullmatch(short) and (not slash or _SUBDOMAIN.fullmatch(prefix)))


def _check_texts(field: str, given: Object) -> None:
    """What the real one cannot even read into its types is a bad request."""
    for name, value in given.items():
        if not isinstance(value, str):
            raise bad_request(f"cannot be handled: {field}.{name} is not a string")


def _check_micro_time(given: Object, field: str) -> None:
    value = given.get(field)
    if value is not None and not _MICRO_TIME.fullmatch(str(value)):
        raise bad_request(f'{field}: parsing time "{value}" as MicroTime: cannot parse')


def _lease(_: Key, new: Object) -> Causes:
    spec = new.get("spec") or {}
    _check_micro_time(spec, "renewTime")
    _check_micro_time(spec, "acquireTime")
    least = {"leaseDurationSeconds": 1, "leaseTransitions": 0}
    return [
        (f"spec.{field}", f"Invalid value: must be {number} or more")
        for field, number in least.items()
        if spec.get(field) is not None and spec[field] < number
    ]


def _event(key: Key, new: Object) -> Causes:
    _check_micro_time(new, "eventTime")
    namespace = new.get("involvedObject", {}).get("namespace", "")
    # Those about what has no namespace are in "default".
    if namespace != key.namespace and (namespace or key.namespace != "default"):
        return [("involvedObject.namespace", "Invalid value: does not match event.namespace")]
    return []


def _config_map(_: Key, new: Object) -> Causes:
    data = new.get("data") or {}
    _check_texts("data", data)
    return _data_keys(data)


def _secret(_: Key, new: Object) -> Causes:
    data = new.get("data") or {}
    for name, value in data.items():
        try:
            base64.b64decode(value, validate=True)
        except (TypeError, ValueError):
            raise bad_request(f"data.{name}: illegal base64 data") from None
    return _data_keys(data)


def _data_keys(data: Object) -> Causes:
    bad = [one for one in data if not _DATA_KEY.fullmatch(one)]
    return [(f"data[{one}]", "Invalid value: a valid config key is needed") for one in bad]


def _node(_: Key, new: Object) -> Causes:
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
            extended = "/" in name and "kubernetes.io/" not in name  # only whole ones of these
            if amounts[name].startswith("-") or (extended and milli(value) % 1000):
                causes.append((where, "Invalid value"))
    return causes


def _pod(_: Key, new: Object) -> Causes:
    has_containers = bool((new.get("spec") or {}).get("containers"))
    return [] if has_containers else [("spec.containers", "Required value")]


def canonical(quantity: Any) -> str:
    """A quantity as the server writes it ("1000m" is "1", "1024Mi" is "1Gi"), or ``ValueError``."""
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


_RULES: dict[Resource, Callable[[Key, Object], Causes]] = {
    LEASES: _lease,
    EVENTS: _event,
    CONFIG_MAPS: _config_map,
    SECRETS: _secret,
    NODES: _node,
    PODS: _pod,
}
