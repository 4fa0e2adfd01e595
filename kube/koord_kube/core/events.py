"""Events: what a program reports of an object, for ``kubectl describe``. No IO.

Core v1, as Koordinator's programs write them: what an Event needs there is less than in
``events.k8s.io``, and ``kubectl`` shows both alike.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

from koord_model.times import rfc3339
from koord_service.repetitions import Repetitions

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import Resource

_HOMELESS = "default"
"""Namespace of Events about objects that have none."""

_LONGEST_MESSAGE = 1024
_LONGEST_NAME = 253
_REPEAT_SECONDS = 300.0
_SIMILAR_SECONDS, _MOST_MESSAGES = 600.0, 10
_MOST_OBJECTS = 1024
"""Objects and reasons whose messages are remembered: some 700 bytes each."""


class EventSource(NamedTuple):
    """Reporter of Events: a program, and the name of its node or replica."""

    component: str
    instance: str = ""


def reference(resource: Resource, name: str, namespace: str = "", uid: str = "") -> Object:
    """As much of an object as an Event needs of what it is about."""
    group = f"{resource.group}/" if resource.group else ""
    meta = {"name": name, "namespace": namespace, "uid": uid}
    return {
        "apiVersion": f"{group}{resource.version}",
        "kind": resource.kind,
        "metadata": {field: value for field, value in meta.items() if value},
    }


def event(
    regarding: Object,
    reason: str,
    message: str,
    source: EventSource,
    at: float,
    *,
    warning: bool,
    count: int = 1,
) -> Object:
    """The object to create in its own namespace, at ``at`` seconds since the epoch.

    ``reason`` is one CamelCase word, ``message`` one line. ``regarding`` has to have
    ``kind`` and ``apiVersion``, which items of a list have not: see ``reference``.
    """
    meta = regarding["metadata"]
    namespace = meta.get("namespace", "")
    when = rfc3339(at)
    suffix = f".{int(at * 1e9):x}"
    name = meta["name"][: _LONGEST_NAME - len(suffix)].rstrip(".-")
    about = {
        "apiVersion": regarding["apiVersion"],
        "kind": regarding["kind"],
        "name": meta["name"],
        "namespace": namespace,
        "uid": meta.get("uid", ""),
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}{suffix}", "namespace": namespace or _HOMELESS},
        "involvedObject": {field: value for field, value in about.items() if value},
        "reason": reason,
        "message": _cut(message),
        "type": "Warning" if warning else "Normal",
        "source": {"component": source.component, "host": source.instance},
        "reportingComponent": source.component,
        "reportingInstance": source.instance,
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": count,
    }


class EventAggregator:
    """Bounds the Events of one object, as Kubernetes' recorder does.

    Equal reports become one Event in five minutes, with a count. Where an object's reports of one
    reason have ten different messages, not ten minutes apart, they are combined: they count as
    equal from then on.
    """

    def __init__(self) -> None:
        self._equal = Repetitions(_REPEAT_SECONDS)
        self._messages: OrderedDict[int, tuple[float, set[int]]] = OrderedDict()

    def add(self, about: Hashable, message: str, now: float) -> tuple[int, bool]:
        """Return the count of the Event to write now, 0 for none, and whether it is combined.

        ``about`` is the object and the reason, ``now`` monotonic seconds.
        """
        is_combined = self._has_many(hash(about), hash(message), now)
        return self._equal.count((about, None if is_combined else message), now), is_combined

    def _has_many(self, about: int, message: int, now: float) -> bool:
        last, messages = self._messages.pop(about, (now, set()))
        if now - last > _SIMILAR_SECONDS:
            messages.clear()
        messages.add(message)
        has_many = len(messages) >= _MOST_MESSAGES
        if has_many:
            messages.pop()
        self._messages[about] = now, messages
        if len(self._messages) > _MOST_OBJECTS:
            self._messages.popitem(last=False)
        return has_many


def _cut(message: str) -> str:
    words = " ".join(message.split())
    encoded = words.encode()
    if len(encoded) <= _LONGEST_MESSAGE:
        return words
    return encoded[: _LONGEST_MESSAGE - 3].decode(errors="ignore") + "…"
