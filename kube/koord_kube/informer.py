"""Keeps the objects of one kind as the API has them: lists, watches, and lists again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Generic, TypeVar

import msgspec

from koord_kube.api import Api, ApiError, Change, NotFoundError, Page
from koord_kube.resources import Resource
from koord_kube.watching import Action, Pace, Step, Watching

T = TypeVar("T")

_RANDOM = random.SystemRandom()


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")


class _Named(msgspec.Struct, frozen=True):
    """What an informer itself reads of an object."""

    metadata: _Meta = _Meta()

    @property
    def key(self) -> str:
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


_NAMED = msgspec.json.Decoder(_Named)


def _untold(_line: str) -> None:
    pass


class Informer(Generic[T]):
    """The objects of a resource, all or those selected, each ``decode``d from its JSON.

    ``objects`` is a live view, by name or by namespace/name. ``changed`` hears of each object
    that was added, changed or deleted, with its key, what it was and what it is, ``None``
    where it was or is not there; by then ``objects`` has it. One that decodes to what it was
    has not changed. While the API is not there, or an object does not decode, the last
    good state is kept. ``tell`` gets a line for people, once for each trouble; that a kind
    which is ``optional`` is not installed is none.

    What ``decode`` makes of an object is all that is kept of it. In lists objects of
    built-in kinds have no ``kind`` and ``apiVersion``.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        *,
        name: str = "",
        namespace: str = "",
        label_selector: str = "",
        optional: bool = False,
        decode: Callable[[bytes], T],
        changed: Callable[[str, T | None, T | None], None],
        tell: Callable[[str], None] = _untold,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = _RANDOM.random,
        pace: Pace | None = None,
    ) -> None:
        self._api = api
        self._resource = resource
        self._selected = namespace, f"metadata.name={name}" if name else "", label_selector
        self._optional = optional
        self._decode = decode
        self._changed = changed
        self._tell = tell
        self._monotonic = monotonic
        self._watching = Watching(chance, pace or Pace())
        self._source_trouble = ""
        self._told: set[str] = set()
        self._undecoded: dict[str, str] = {}
        self._objects: dict[str, T] = {}
        self._synced = asyncio.Event()
        self._known = asyncio.Event()
        self.objects: Mapping[str, T] = MappingProxyType(self._objects)
        self.synced_at = float("-inf")
        """When the API last said that this is the state; monotonic seconds."""
        self.absent = False
        """Whether the API has no such kind at present: its CRD is not installed."""

    @property
    def trouble(self) -> str:
        """Why this may not be the true state, in a line; "" while fine."""
        return self._source_trouble or next(iter(self._undecoded.values()), "")

    @property
    def synced(self) -> bool:
        """Whether a whole list has been taken: until then what is not here may be there."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Until ``synced``; it then stays so."""
        await self._synced.wait()

    async def wait_known(self) -> None:
        """Until a whole list has been taken, or the API has said that there is no such kind."""
        await self._known.wait()

    def age(self, now: float) -> float:
        """How many seconds ago this was surely the state; infinite before the first list."""
        return now - self.synced_at

    def recall(self, known: Mapping[str, T]) -> None:
        """Take what was known before a restart, until the API says what is true.

        ``changed`` hears of them at the first list where they are otherwise by then, or gone.
        """
        self._objects.update(known)

    async def run(self) -> None:
        """For ever; whatever becomes of the API."""
        step = Step(Action.LIST)
        while True:
            await asyncio.sleep(step.wait)
            try:
                step = await (self._list() if step.action is Action.LIST else self._watch())
            except ApiError as error:
                step = self._watching.failed(error.status, error.retry_after)
                self.absent = isinstance(error, NotFoundError)
                if self.absent:
                    self._known.set()
                if self.absent and self._optional:
                    self._source_trouble = ""
                else:
                    self._troubled(str(error))

    async def _list(self) -> Step:
        there: set[str] = set()
        version = ""
        async with aclosing(self._api.pages(self._resource, *self._selected)) as pages:
            async for page in pages:
                self._take_page(page, there)
                version = page.version
        for key in self._undecoded.keys() - there:
            del self._undecoded[key]
        for key in self._objects.keys() - there:
            self._remove(key)
        self._fine()
        self._synced.set()
        self._known.set()
        return self._watching.listed(version, self._monotonic())

    def _take_page(self, page: Page, there: set[str]) -> None:
        if page.first:
            there.clear()
        for raw in page.items:
            key = _named(raw).key
            there.add(key)
            self._place(key, raw)

    async def _watch(self) -> Step:
        opened = self._monotonic()
        changes = self._api.watch(self._resource, self._watching.version, *self._selected)
        async with aclosing(changes):
            async for change in changes:
                self._take(change)
        now = self._monotonic()
        return self._watching.ended(now - opened, now)

    def _take(self, change: Change) -> None:
        self._fine()
        named = _named(change.raw)
        if change.type == "DELETED":
            self._undecoded.pop(named.key, None)
            self._remove(named.key)
        elif change.type != "BOOKMARK":
            self._place(named.key, change.raw)
        # Only now: what could not be taken is to come again.
        self._watching.heard(named.metadata.version)

    def _place(self, key: str, raw: bytes) -> None:
        try:
            value = self._decode(raw)
        except Exception as error:  # it is the caller's, and no object may end the informer
            reason = " ".join(str(error).split()) or type(error).__name__
            line = f"{self._resource.plural} {key}: {reason} (its last good version stays)"
            if self._undecoded.get(key) != line:
                self._tell(line)
            self._undecoded[key] = line
        else:
            self._undecoded.pop(key, None)
            self._set(key, value)

    def _set(self, key: str, value: T) -> None:
        before = self._objects.get(key)
        if before != value:
            self._objects[key] = value
            self._changed(key, before, value)

    def _remove(self, key: str) -> None:
        before = self._objects.pop(key, None)
        if before is not None:
            self._changed(key, before, None)

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


def _named(raw: bytes) -> _Named:
    """Of an object without a proper name nothing; it does not decode for anybody else either."""
    try:
        return _NAMED.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Named()
