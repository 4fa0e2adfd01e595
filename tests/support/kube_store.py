"""What the double of the API server keeps: objects, what has happened, watches, pages.

An object that is kept is never changed in place; a write puts another in its stead. So
lists, the log and the snapshots of paged lists share it, and nothing is copied for them.
Resource versions grow with each change. An object that leaves a watch's selector is DELETED
for it, and one that comes into it is ADDED. The pages of a list are of one moment, and a
token for the next one expires with the log.
"""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import msgspec
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import Resource

from tests.support.kube_json import copied
from tests.support.kube_kinds import BUILT_IN, api_version
from tests.support.kube_refusal import Refused, bad_request
from tests.support.kube_selecting import Key, Selection

_SNAPSHOTS = 8
"""Of how many paged lists the rest is kept."""


@dataclass
class Happening:
    """One change; ``before`` is what there was, ``now`` is the last state where it is gone."""

    version: int
    type: str
    key: Key
    before: Object | None
    now: Object
    _lines: dict[str, bytes] = field(default_factory=dict)

    def line(self, wanted: Selection) -> bytes | None:
        """What a watch is told; ``None``: it is none of its business."""
        here = self.type != "DELETED" and wanted.wants(self.key, self.now)
        was = self.before is not None and wanted.wants(self.key, self.before)
        if not here and not was:
            return None
        type_ = ("MODIFIED" if was else "ADDED") if here else "DELETED"
        if type_ not in self._lines:
            self._lines[type_] = line(type_, self.now if here else self._last())
        return self._lines[type_]

    def _last(self) -> Object:
        given = self.before or self.now
        return {**given, "metadata": {**given["metadata"], "resourceVersion": str(self.version)}}


@dataclass(eq=False)
class Watch:
    """An open watch; its queue holds lines to send, or what to do with the connection."""

    wanted: Selection
    bookmarks: bool
    since: int = 0
    """Nothing is told of what was until then, even if that is still to come."""
    queue: asyncio.Queue[bytes | str] = field(default_factory=asyncio.Queue)


@dataclass(frozen=True)
class Page:
    """A part of a list; ``token`` asks for the next one, "" where it is the last."""

    items: list[Object]
    version: int
    token: str = ""
    remaining: int = 0


class Store:
    """The objects; a test changes them as another client with all rights does.

    ``time`` is when what is created is created.
    """

    def __init__(self) -> None:
        self.time = "2026-01-01T00:00:00Z"
        self._kinds: dict[Resource, dict[Key, Object]] = {}
        self._version = 1000
        self._compacted = 1000
        self._log: list[Happening] = []
        self._watches: set[Watch] = set()
        self._snapshots: dict[tuple[int, Resource], list[tuple[Key, Object]]] = {}

    @property
    def objects(self) -> Mapping[Key, Object]:
        """All that is kept; not to be changed."""
        return {key: one for kind in self._kinds.values() for key, one in kind.items()}

    def put(self, resource: Resource, given: Object, namespace: str = "") -> Object:
        """Create or replace an object with its status; returns it as it is kept."""
        key = Key(resource, namespace, given["metadata"]["name"])
        return copied(self._keep(key, copied(given), self._found(key)))

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """The object as it is kept; ``KeyError`` where there is none."""
        return copied(self._kinds.get(resource, {})[Key(resource, namespace, name)])

    def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Away with it at once, whatever its finalizers are."""
        self._remove(Key(resource, namespace, name))

    def compact(self) -> None:
        """Forget what has happened: watches and tokens from before are Gone."""
        self._version += 1
        self._compacted = self._version
        self._log.clear()
        self._snapshots.clear()

    def bookmark(self) -> None:
        """Tell the open watches that asked for it how far they are."""
        for watch in self._watches:
            self._mark(watch)

    def _mark(self, watch: Watch) -> None:
        if watch.bookmarks:
            watch.queue.put_nowait(self._bookmark(watch.wanted.resource))

    def end_watches(self) -> None:
        """Open watches end as after their timeout."""
        self._tell("end")

    def cut_watches(self) -> None:
        """Open watches break off in the middle of an event."""
        self._tell("half")

    def expire_watches(self) -> None:
        """Open watches get an ERROR event with 410."""
        self.compact()
        for watch in self._watches:
            watch.queue.put_nowait(line("ERROR", self._gone().document()))
            watch.queue.put_nowait("end")

    def silence_watches(self) -> None:
        """Open watches stay open and say nothing any more, as where a host is gone."""
        self._tell("silence")

    def open_watches(self) -> int:
        return len(self._watches)

    def _found(self, key: Key) -> Object | None:
        return self._kinds.get(key.resource, {}).get(key)

    def _select(self, wanted: Selection) -> Iterator[tuple[Key, Object]]:
        kind = self._kinds.get(wanted.resource, {})
        return ((key, one) for key, one in kind.items() if wanted.wants(key, one))

    def _keep(self, key: Key, new: Object, before: Object | None) -> Object:
        """``new`` is the store's from now on."""
        self._complete(key, new, before)
        if new == before:  # The real one writes nothing either, and tells nobody.
            return before
        self._version += 1
        new["metadata"]["resourceVersion"] = str(self._version)
        self._kinds.setdefault(key.resource, {})[key] = new
        self._happened("ADDED" if before is None else "MODIFIED", key, before, new)
        return new

    def _complete(self, key: Key, new: Object, before: Object | None) -> None:
        """What the server alone says of an object."""
        meta = new.setdefault("metadata", {})
        old = (before or {}).get("metadata", {})
        meta["name"] = key.name
        if key.namespace:
            meta["namespace"] = key.namespace
        meta["uid"] = old.get("uid") or meta.get("uid") or str(uuid.uuid4())
        meta["creationTimestamp"] = old.get("creationTimestamp", self.time)
        meta["generation"] = old.get("generation", 0) + (
            before is None or _wished(before) != _wished(new)
        )
        meta["resourceVersion"] = old.get("resourceVersion", "")
        new["apiVersion"], new["kind"] = api_version(key.resource), key.resource.kind

    def _remove(self, key: Key) -> Object:
        last = self._kinds.get(key.resource, {}).pop(key)
        self._version += 1
        self._happened("DELETED", key, last, last)
        return last

    def _happened(self, type_: str, key: Key, before: Object | None, now: Object) -> None:
        event = Happening(self._version, type_, key, before, now)
        self._log.append(event)
        self._noticed(event)
        for watch in self._watches:
            if watch.wanted.resource == key.resource and event.version > watch.since:
                told = event.line(watch.wanted)
                if told is not None:
                    watch.queue.put_nowait(told)

    def _noticed(self, event: Happening) -> None:
        """What the server itself makes of a change; here nothing."""

    def _tell(self, what: str) -> None:
        for watch in self._watches:
            watch.queue.put_nowait(what)

    def _bookmark(self, resource: Resource, annotations: Object | None = None) -> bytes:
        meta: Object = {"resourceVersion": str(self._version)}
        if annotations:
            meta["annotations"] = annotations
        kind = {"kind": resource.kind, "apiVersion": api_version(resource)}
        return line("BOOKMARK", {**kind, "metadata": meta})

    def _gone(self, since: str = "0") -> Refused:
        return Refused(410, "Expired", f"too old resource version: {since} ({self._compacted})")

    def _missed(self, wanted: Selection, since: str) -> list[bytes]:
        """What a watch that opens has to be told first."""
        if since in ("", "0"):
            return [line("ADDED", one) for _, one in self._select(wanted)]
        start = bisect_right(self._log, int(since), key=lambda one: one.version)
        events = islice(self._log, start, None)
        lines = (one.line(wanted) for one in events if one.key.resource == wanted.resource)
        return [one for one in lines if one is not None]

    def _page(self, wanted: Selection, limit: int, token: str) -> Page:
        """``limit`` is 0 for all; a token goes on in the moment of the first page."""
        version, found = self._version, None
        after: tuple[str, str] | None = None
        if token:
            version, after = _opened(token)
            found = self._snapshots.get((version, wanted.resource))
            if found is None and version:
                raise self._expired(after)
        if found is None:
            kind = self._kinds.get(wanted.resource, {}).items()
            found, version = sorted(kind, key=lambda one: one[0][1:]), self._version
        items = [
            (key, one)
            for key, one in found
            if (after is None or key[1:] > after) and wanted.wants(key, one)
        ]
        if not limit or len(items) <= limit:
            return Page([one for _, one in items], version)
        self._snapshots[version, wanted.resource] = found
        for old in list(self._snapshots)[:-_SNAPSHOTS]:
            del self._snapshots[old]
        more = _token(version, items[limit - 1][0])
        return Page([one for _, one in items[:limit]], version, more, len(items) - limit)

    @staticmethod
    def _expired(after: tuple[str, str]) -> Refused:
        message = (
            "The provided continue parameter is too old to display a consistent list result. "
            "You can start a new list without the continue parameter, or use the continue token "
            "in this response to retrieve the remainder of the results. Continuing with the "
            "provided token results in an inconsistent list"
        )
        # With a version of 0 the rest is told as it is by then.
        return Refused(410, "Expired", message, token=_sealed(0, *after))


def as_listed(resource: Resource, items: list[Object]) -> list[Object]:
    """Items of built-in kinds have neither apiVersion nor kind in a list; custom ones have."""
    if resource not in BUILT_IN:
        return items
    return [
        {name: value for name, value in one.items() if name not in ("apiVersion", "kind")}
        for one in items
    ]


def line(type_: str, given: Object) -> bytes:
    """One event of a watch."""
    return msgspec.json.encode({"type": type_, "object": given}) + b"\n"


def _token(version: int, last: Key) -> str:
    return _sealed(version, last.namespace, last.name)


def _sealed(version: int, namespace: str, name: str) -> str:
    given = {"v": "meta.k8s.io/v1", "rv": version, "start": [namespace, name]}
    return base64.urlsafe_b64encode(json.dumps(given).encode()).decode().rstrip("=")


def _opened(token: str) -> tuple[int, tuple[str, str]]:
    try:
        given = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = given["start"]
        return int(given["rv"]), (namespace, name)
    except (ValueError, KeyError, TypeError):
        raise bad_request("continue key is not valid: the token is not this server's") from None


def _wished(given: Object) -> Object:
    return {name: one for name, one in given.items() if name not in ("metadata", "status")}
