"""Caches the objects of one kind: lists, watches, lists again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Generic, TypeVar

import anyio
import msgspec
from koord_service.log_deduplicator import LogDeduplicator

from koord_kube.core.reflector import Reflector, ReflectorAction, ReflectorStep, ReflectorTiming
from koord_kube.core.retry_schedule import RequestRetry
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol import selectors
from koord_kube.protocol.api import Api, ApiError, ListPage, NotFoundError, WatchEvent
from koord_kube.protocol.resources import Resource
from koord_kube.protocol.selectors import EVERYTHING, ApiSelector
from koord_kube.shared_backoff import RequestBackoff, backoff_of
from koord_kube.views.metadata import NamedObject, decode_named

T = TypeVar("T")

Handler = Callable[[str, T | None, T | None], None]
"""Gets an object's key, what it was and what it is; ``None``: it was, or is, not there."""

_RANDOM = random.SystemRandom()
_NO_ANSWER = ApiError("a watch that ended at once")


class Informer(Generic[T]):
    """The objects of a resource, all or those selected, each ``decode``d from its JSON.

    They are selected by ``name``, or by selectors as the API has them.
    ``objects`` is a live view, by name or by namespace/name. Handlers are called for each object
    that was added, changed or deleted, after ``objects`` has it; an object that decodes to an
    equal value has not changed. While the API server cannot be reached, or an object cannot be
    decoded, the last good state stays. ``on_warning`` gets a line for people, once for each
    failure; if the kind is ``optional``, its absence is not one.

    Only what ``decode`` returns is kept of an object. Objects of built-in kinds have no
    ``kind`` and ``apiVersion`` in lists.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        *,
        name: str = "",
        namespace: str = "",
        label_selector: ApiSelector = EVERYTHING,
        field_selector: ApiSelector = EVERYTHING,
        optional: bool = False,
        decode: Callable[[bytes], T],
        on_change: Handler[T] | None = None,
        on_warning: OnWarning = ignore_warning,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = _RANDOM.random,
        timing: ReflectorTiming | None = None,
    ) -> None:
        self._api = api
        self._resource = resource
        fields = selectors.named(name) if name else field_selector
        self._selected = namespace, fields, label_selector
        self.is_optional = optional
        self._decode = decode
        self._handlers: list[Handler[T]] = [on_change] if on_change else []
        self._on_warning = on_warning
        self._monotonic = monotonic
        self._reflector = Reflector(chance, timing or ReflectorTiming())
        self._backoff, self._retry = backoff_of(api), RequestRetry()
        self._source_problem = ""
        self._warnings = LogDeduplicator()
        self._undecoded: dict[str, str] = {}
        self._objects: dict[str, T] = {}
        self._synced = anyio.Event()
        self._known = anyio.Event()
        self._moved = anyio.Event()
        self._wanted = ""
        self._step: anyio.CancelScope | None = None
        self.objects: Mapping[str, T] = MappingProxyType(self._objects)
        self.synced_at = float("-inf")
        """Time of the API's last confirmation of this state; monotonic seconds."""
        self.absent = False
        """True if the API has no such kind at present: its CRD is not installed."""

    @property
    def problem(self) -> str:
        """Reason why this may not be the true state, in a line; "" while there is none."""
        return self._source_problem or next(iter(self._undecoded.values()), "")

    @property
    def is_followed(self) -> bool:
        """True if changes arrive; objects that cannot be read are another matter."""
        return not self._source_problem

    @property
    def synced(self) -> bool:
        """True once a whole list has been taken: until then, missing objects may exist."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until ``synced``; it then stays so."""
        await self._synced.wait()

    async def wait_known(self) -> None:
        """Wait for a complete list, or for the answer that the kind does not exist."""
        await self._known.wait()

    async def catch_up(self, patience: float) -> None:
        """Wait until all is known that was written before this call, in whatever state it is.

        A watch may be behind, and one of a quiet kind says for a minute nothing at all: after
        ``patience`` seconds it is given up, and all is listed anew. An optional kind that is not
        there has nothing.
        """
        version = await self._newest_version()
        with anyio.move_on_after(patience):
            await self._reach(version)
        if not self._reflector.knows(version):
            self._wanted = version
            if self._reflector.is_watching and self._step is not None:
                self._step.cancel()
        await self._reach(version)

    async def _newest_version(self) -> str:
        backoff = RequestBackoff(self._backoff, 1.0, 1.0)
        while True:
            try:
                pages = self._api.pages(self._resource, *self._selected, limit=1)
                async with aclosing(pages):
                    return (await anext(pages)).version
            except ApiError as error:
                if isinstance(error, NotFoundError) and self.is_optional:
                    return ""
                self._on_warning(f"{error} (it is not known how new the state has to be)")
                await backoff.pause(error)

    async def _reach(self, version: str) -> None:
        while not (self._reflector.knows(version) or (self.absent and self.is_optional)):
            if self._moved.is_set():
                self._moved = anyio.Event()
            await self._moved.wait()

    def age(self, now: float) -> float:
        """Return the seconds since this was surely the state; infinite before the first list."""
        return now - self.synced_at

    def subscribe(self, handler: Handler[T]) -> None:
        """Call ``handler`` for all objects that are there now, and for each change from now on."""
        self._handlers.append(handler)
        for key, value in self._objects.items():
            handler(key, None, value)

    def recall(self, known: Mapping[str, T]) -> None:
        """Use what was known before a restart, until the first list is complete.

        Handlers are called at the first list for those that are different by then, or gone.
        """
        self._objects.update(known)

    async def run(self) -> None:
        """List and watch until cancelled, whatever becomes of the API server."""
        step, failure = ReflectorStep(ReflectorAction.STREAM), _NO_ANSWER
        while True:
            if step.wait:
                await self._pause(step, failure)
            if self._wanted and not self._reflector.knows(self._wanted):
                step = self._reflector.want(self._wanted)
            failure, self._wanted = _NO_ANSWER, ""
            try:
                step = await self._do(step.action)
            except ApiError as error:
                failure = error
                step = self._after(error)
                self._moved.set()

    async def _do(self, action: ReflectorAction) -> ReflectorStep:
        doing = {
            ReflectorAction.STREAM: self._stream,
            ReflectorAction.LIST: self._list,
            ReflectorAction.WATCH: self._watch,
        }
        with anyio.CancelScope() as self._step:
            return await doing[action]()
        return ReflectorStep(action)  # given up for a list, which comes first

    async def _pause(self, step: ReflectorStep, failure: ApiError) -> None:
        if self._reflector.failures == 1:
            self._retry = RequestRetry()
        await self._backoff.pause(self._retry, step.wait, failure)

    def _after(self, error: ApiError) -> ReflectorStep:
        failures = self._reflector.failures
        step = self._reflector.failed(error.status, error.retry_after)
        if self._reflector.failures == failures:
            return step  # this server needs another form of the request
        self.absent = isinstance(error, NotFoundError)
        if self.absent:
            self._known.set()
        if self.absent and self.is_optional:
            self._source_problem = ""
        else:
            self._note_problem(str(error))
        return step

    async def _list(self) -> ReflectorStep:
        there: set[str] = set()
        version = ""
        since = self._reflector.list_version
        pages = self._api.pages(self._resource, *self._selected, version=since)
        async with aclosing(pages):
            async for page in pages:
                self._take_page(page, there)
                version = page.version
        return self._listed(there, version)

    async def _stream(self) -> ReflectorStep:
        """List by a watch, and continue it."""
        there: set[str] = set()
        listed_at = None
        since = self._reflector.list_version
        changes = self._api.watch(self._resource, since, *self._selected, listing=True)
        async with aclosing(changes):
            async for change in changes:
                if listed_at is not None:
                    self._take(change)
                elif change.ends_list:
                    listed_at = self._monotonic()
                    self._listed(there, _named(change.raw).metadata.version)
                else:
                    self._take_initial(change, there)
        if listed_at is None:
            raise ApiError(f"{self._resource.plural}: the list broke off")
        now = self._monotonic()
        return self._reflector.ended(now - listed_at, now)

    def _listed(self, there: set[str], version: str) -> ReflectorStep:
        """Take a complete list: all other objects are gone."""
        for key in self._undecoded.keys() - there:
            del self._undecoded[key]
        for key in self._objects.keys() - there:
            self._remove(key)
        self._fine()
        self._synced.set()
        self._known.set()
        step = self._reflector.listed(version, self._monotonic())
        self._moved.set()
        return step

    def _take_initial(self, change: WatchEvent, there: set[str]) -> None:
        """Ignore its version: continuing from there would miss the rest of the list."""
        key = _named(change.raw).metadata.key
        if change.type == "DELETED":
            there.discard(key)
        elif change.type != "BOOKMARK":
            there.add(key)
            self._place(key, change.raw)

    def _take_page(self, page: ListPage, there: set[str]) -> None:
        if page.first:
            there.clear()
        for raw in page.items:
            key = _named(raw).metadata.key
            there.add(key)
            self._place(key, raw)

    async def _watch(self) -> ReflectorStep:
        opened = self._monotonic()
        changes = self._api.watch(self._resource, self._reflector.version, *self._selected)
        async with aclosing(changes):
            async for change in changes:
                self._take(change)
        now = self._monotonic()
        return self._reflector.ended(now - opened, now)

    def _take(self, change: WatchEvent) -> None:
        self._fine()
        named = _named(change.raw).metadata
        if change.type == "DELETED":
            self._undecoded.pop(named.key, None)
            self._remove(named.key)
        elif change.type != "BOOKMARK":
            self._place(named.key, change.raw)
        # Only now: an event that could not be handled must come again.
        self._reflector.observed(named.version)
        self._moved.set()

    def _place(self, key: str, raw: bytes) -> None:
        try:
            value = self._decode(raw)
        except Exception as error:  # it is the caller's, and no object may end the informer
            reason = " ".join(str(error).split()) or type(error).__name__
            line = f"{self._resource.plural} {key}: {reason} (its last good version stays)"
            if self._undecoded.get(key) != line:
                self._on_warning(line)
            self._undecoded[key] = line
        else:
            self._undecoded.pop(key, None)
            self._set(key, value)

    def _set(self, key: str, value: T) -> None:
        before = self._objects.get(key)
        if before != value:
            self._objects[key] = value
            self._notify(key, before, value)

    def _remove(self, key: str) -> None:
        before = self._objects.pop(key, None)
        if before is not None:
            self._notify(key, before, None)

    def _notify(self, key: str, before: T | None, now: T | None) -> None:
        for handler in self._handlers:
            handler(key, before, now)

    def _fine(self) -> None:
        self.synced_at = self._monotonic()
        self._source_problem = ""
        self.absent = False

    def _note_problem(self, line: str) -> None:
        """One broken watch is normal, and not logged: servers restart."""
        if self._reflector.failures == 1:
            self._warnings.clear()
            if self.synced_at > float("-inf"):
                return
        self._source_problem = line
        if self._warnings.is_new(line):
            self._on_warning(line)


def _named(raw: bytes) -> NamedObject:
    """Nothing of an object without a valid name; it does not decode elsewhere either."""
    try:
        return decode_named(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return NamedObject()
