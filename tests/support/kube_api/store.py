"""What the double keeps: objects, the log of changes, watches, the rest of lists in pages.

A stored object is never changed in place; a write replaces it. So lists, the log and the rest
of paged lists share it without copies. Resource versions grow with each change. An object
that leaves a watch's selector is DELETED for it, and one that comes into it is ADDED. The pages
of a list are of one moment, and a token for the next page expires with the log.
"""

from __future__ import annotations

import asyncio
import uuid
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import msgspec
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import Resource

from tests.support.kube_api.kinds import BUILT_IN, Key, Refused, api_version, copied
from tests.support.kube_api.requests import Selection


@dataclass
class Change:
    """``before`` is the object that was replaced, ``now`` the last state of a deleted one."""

    version: int
    type: str
    key: Key
    before: Object | None
    now: Object
    _lines: dict[str, bytes] = field(default_factory=dict)

    def line(self, selection: Selection) -> bytes | None:
        """What a watch gets; ``None`` if it does not select the object."""
        here = self.type != "DELETED" and selection.selects(self.key, self.now)
        was = self.before is not None and selection.selects(self.key, self.before)
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

    selection: Selection
    bookmarks: bool
    since: int = 0
    """Changes up to this version are not sent."""
    queue: asyncio.Queue[bytes | str] = field(default_factory=asyncio.Queue)


class Store:
    """The objects; a test changes them as another client with all rights does.

    ``time`` is when what is created is created.
    """

    def __init__(self) -> None:
        self.time = "2026-01-01T00:00:00Z"
        self._kinds: dict[Resource, dict[Key, Object]] = {}
        self._version = 1000
        self._compacted = 1000
        self._log: list[Change] = []
        self._watches: set[Watch] = set()
        self._continued: dict[str, tuple[int, list[Object]]] = {}

    @property
    def objects(self) -> Mapping[Key, Object]:
        """All that is kept; not to be changed."""
        return {key: one for kind in self._kinds.values() for key, one in kind.items()}

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """The object as it is kept; ``KeyError`` where there is none."""
        return copied(self._kinds.get(resource, {})[Key(resource, namespace, name)])

    def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Delete it at once."""
        self._remove(Key(resource, namespace, name))

    def compact(self) -> None:
        """Forget the log: watches and tokens from before are Gone."""
        self._version += 1
        self._compacted = self._version
        self._log.clear()
        self._continued.clear()

    def bookmark(self) -> None:
        """Send bookmarks to the open watches that asked for them."""
        for watch in self._watches:
            self._mark(watch)

    def _mark(self, watch: Watch) -> None:
        if watch.bookmarks:
            watch.queue.put_nowait(self._bookmark(watch.selection.resource))

    def end_watches(self) -> None:
        """Open watches end as after their timeout."""
        self._signal("end")

    def cut_watches(self) -> None:
        """Open watches break off in the middle of an event."""
        self._signal("half")

    def expire_watches(self) -> None:
        """Open watches get an ERROR event with 410."""
        self.compact()
        for watch in self._watches:
            watch.queue.put_nowait(line("ERROR", self._gone().document()))
            watch.queue.put_nowait("end")

    def silence_watches(self) -> None:
        """Open watches stay open and say nothing any more, as where a host is gone."""
        self._signal("silence")

    def open_watches(self) -> int:
        return len(self._watches)

    def _found(self, key: Key) -> Object | None:
        return self._kinds.get(key.resource, {}).get(key)

    def _select(self, selection: Selection) -> Iterator[tuple[Key, Object]]:
        kind = self._kinds.get(selection.resource, {})
        return ((key, one) for key, one in kind.items() if selection.selects(key, one))

    def _keep(self, key: Key, new: Object, before: Object | None) -> Object:
        """``new`` is the store's from now on."""
        self._complete(key, new, before)
        if new == before:  # The real one writes nothing either.
            return before
        self._version += 1
        new["metadata"]["resourceVersion"] = str(self._version)
        self._kinds.setdefault(key.resource, {})[key] = new
        self._append("ADDED" if before is None else "MODIFIED", key, before, new)
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
            before is None or _desired(before) != _desired(new)
        )
        meta["resourceVersion"] = old.get("resourceVersion", "")
        new["apiVersion"], new["kind"] = api_version(key.resource), key.resource.kind

    def _remove(self, key: Key) -> Object:
        last = self._kinds.get(key.resource, {}).pop(key)
        self._version += 1
        self._append("DELETED", key, last, last)
        return last

    def _append(self, type_: str, key: Key, before: Object | None, now: Object) -> None:
        event = Change(self._version, type_, key, before, now)
        self._log.append(event)
        self._on_change(event)
        for watch in self._watches:
            if watch.selection.resource == key.resource and event.version > watch.since:
                found = event.line(watch.selection)
                if found is not None:
                    watch.queue.put_nowait(found)

    def _on_change(self, event: Change) -> None:
        """What the server itself makes of a change; here nothing."""

    def _signal(self, what: str) -> None:
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

    def _missed(self, selection: Selection, since: str) -> list[bytes]:
        """What a watch that opens gets first."""
        if since in ("", "0"):
            return [line("ADDED", one) for _, one in self._select(selection)]
        start = bisect_right(self._log, int(since), key=lambda one: one.version)
        events = islice(self._log, start, None)
        lines = (one.line(selection) for one in events if one.key.resource == selection.resource)
        return [one for one in lines if one is not None]

    def _page(self, selection: Selection, limit: int, token: str) -> tuple[list[Object], int, str]:
        """Objects, their version, and the token for the next page; ``limit`` is 0 for all."""
        if token:
            if token not in self._continued:
                raise Refused(410, "Expired", "The provided continue parameter is too old")
            version, items = self._continued[token]
        else:
            version = self._version
            found = sorted(self._select(selection), key=lambda one: one[0][1:])
            items = [one for _, one in found]
        if not limit or len(items) <= limit:
            return items, version, ""
        more = uuid.uuid4().hex
        self._continued[more] = version, items[limit:]
        return items[:limit], version, more


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


def _desired(given: Object) -> Object:
    return {name: one for name, one in given.items() if name not in ("metadata", "status")}
