"""Keeps the objects of one kind as the API has them: lists, watches, and lists again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Generic, TypeVar

from koord_kube.api import Api, ApiError, Change, NotFoundError, Object
from koord_kube.resources import Resource
from koord_kube.watching import Action, Pace, Step, Watching

T = TypeVar("T")

_RANDOM = random.SystemRandom()


def _untold(_line: str) -> None:
    pass


class Informer(Generic[T]):
    """The objects of a resource, all or the one called ``name``, each ``decode``d.

    ``changed`` gets all of them after every change: a mapping that never changes, by name
    or by namespace/name. While the API is not there, or an object does not decode, the
    last good state is kept. ``tell`` gets a line for people, once for each trouble.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        *,
        name: str = "",
        namespace: str = "",
        decode: Callable[[Object], T],
        changed: Callable[[Mapping[str, T]], None],
        tell: Callable[[str], None] = _untold,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = _RANDOM.random,
        pace: Pace | None = None,
    ) -> None:
        self._api = api
        self._resource = resource
        self._selector = f"metadata.name={name}" if name else ""
        self._namespace = namespace
        self._decode = decode
        self._changed = changed
        self._tell = tell
        self._monotonic = monotonic
        self._watching = Watching(chance, pace or Pace())
        self._source_trouble = ""
        self._told: set[str] = set()
        self._undecoded: dict[str, str] = {}
        self.objects: Mapping[str, T] = MappingProxyType({})
        self.synced_at = float("-inf")
        """When the API last said that this is the state; monotonic seconds."""
        self.absent = False
        """Whether the API has no such kind at present: its CRD is not installed."""

    @property
    def trouble(self) -> str:
        """Why this may not be the true state, in a line; "" while fine."""
        return self._source_trouble or next(iter(self._undecoded.values()), "")

    def age(self, now: float) -> float:
        """How many seconds ago this was surely the state; infinite before the first list."""
        return now - self.synced_at

    async def run(self) -> None:
        """For ever; whatever becomes of the API."""
        step = Step(Action.LIST)
        while True:
            await asyncio.sleep(step.wait)
            try:
                step = await (self._list() if step.action is Action.LIST else self._watch())
            except ApiError as error:
                step = self._watching.failed(error.status, error.retry_after)
                self._troubled(str(error))
                self.absent = isinstance(error, NotFoundError)

    async def _list(self) -> Step:
        found, version = await self._api.list(self._resource, self._namespace, self._selector)
        before = self.objects
        kept: dict[str, T] = {}
        for one in found:
            self._place(kept, one, before)
        for key in self._undecoded.keys() - {_key(one) for one in found}:
            del self._undecoded[key]
        self._fine()
        self._show(kept)
        return self._watching.listed(version, self._monotonic())

    async def _watch(self) -> Step:
        opened = self._monotonic()
        changes = self._api.watch(
            self._resource, self._watching.version, self._namespace, self._selector
        )
        async with aclosing(changes):
            async for change in changes:
                self._take(change)
        now = self._monotonic()
        return self._watching.ended(now - opened, now)

    def _take(self, change: Change) -> None:
        self._fine()
        if change.type != "BOOKMARK":
            kept = dict(self.objects)
            if change.type == "DELETED":
                kept.pop(_key(change.object), None)
                self._undecoded.pop(_key(change.object), None)
            else:
                self._place(kept, change.object, self.objects)
            self._show(kept)
        # Only now: what could not be shown is to come again.
        self._watching.heard(str(_meta(change.object).get("resourceVersion") or ""))

    def _place(self, kept: dict[str, T], given: Object, before: Mapping[str, T]) -> None:
        key = _key(given)
        try:
            kept[key] = self._decode(given)
        except Exception as error:  # it is the caller's, and no object may end the informer
            reason = " ".join(str(error).split()) or type(error).__name__
            line = f"{self._resource.plural} {key}: {reason} (its last good version stays)"
            if self._undecoded.get(key) != line:
                self._tell(line)
            self._undecoded[key] = line
            if key in before:
                kept[key] = before[key]
        else:
            self._undecoded.pop(key, None)

    def _show(self, kept: dict[str, T]) -> None:
        self.objects = MappingProxyType(kept)
        self._changed(self.objects)

    def _fine(self) -> None:
        self.synced_at = self._monotonic()
        self._source_trouble = ""
        self.absent = False

    def _troubled(self, line: str) -> None:
        """A watch that breaks off once is everyday: servers restart."""
        if self._watching.failures == 1:
            self._told.clear()
            if self.synced_at > float("-inf"):
                return
        self._source_trouble = line
        if line not in self._told:
            self._tell(line)
        self._told.add(line)


def _meta(given: Object) -> Mapping[str, object]:
    found = given.get("metadata")
    return found if isinstance(found, dict) else {}


def _key(given: Object) -> str:
    meta = _meta(given)
    namespace = meta.get("namespace")
    return f"{namespace}/{meta.get('name', '')}" if namespace else str(meta.get("name", ""))
