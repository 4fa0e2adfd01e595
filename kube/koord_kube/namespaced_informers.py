"""Objects of some namespaces, through few connections however many namespaces there are.

A client has a bounded number of connections, and a watch holds one for as long as it lasts: with a
watch for each of a hundred namespaces, no other request would get an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup

from koord_kube.core.reflector import ReflectorTiming
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.informer import Handler, Informer
from koord_kube.protocol.api import Api
from koord_kube.protocol.resources import Resource

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MOST_OWN = 8
"""Namespaces that have a list and a watch of their own; of more, all objects are read."""


class _Meta(msgspec.Struct):
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_OBJECT = msgspec.json.Decoder(_Object)


class NamespacedObjects(Protocol[T_co]):
    """Objects of a kind in those namespaces that are asked for; ``NamespacedInformers`` are."""

    @property
    def namespaces(self) -> Set[str]:
        """Those that are followed."""
        ...

    @property
    def problem(self) -> str:
        """Reason why objects may be old, in a line; "" while there is none."""
        ...

    def is_known(self, namespace: str) -> bool:
        """True once all objects of a namespace have been read."""
        ...

    def of(self, namespace: str) -> Mapping[str, T_co]:
        """The objects of a namespace by "namespace/name", as far as they are known."""
        ...

    def follow(self, group: TaskGroup, namespaces: Set[str]) -> None:
        """Follow just these namespaces; those that are left are forgotten without a call."""
        ...


@dataclass(slots=True, eq=False)
class _Source:
    """An informer for some namespaces, until its scope is cancelled."""

    namespaces: Set[str]
    informer: Informer[Any]
    scope: anyio.CancelScope

    async def run(self) -> None:
        with self.scope:
            await self.informer.run()


class NamespacedInformers(Generic[T]):
    """Objects of a kind in those namespaces that are asked for; see ``Informer``.

    Up to ``MOST_OWN`` namespaces have a list and a watch of their own. Where there are more, one
    list and one watch of all namespaces take their place, of which only what is in these is kept.
    Namespaces that come then have their own again, until these are too many. What was there stays
    until its successor has read everything.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        *,
        decode: Callable[[bytes], T],
        on_change: Handler[T] | None = None,
        on_warning: OnWarning = ignore_warning,
        timing: ReflectorTiming | None = None,
    ) -> None:
        self._api = api
        self._resource = resource
        self._decode = decode
        self._on_change = on_change
        self._more: dict[str, Any] = {"on_warning": on_warning, "timing": timing}
        self._wanted: Set[str] = frozenset()
        self._objects: dict[str, dict[str, T]] = {}
        self._own: dict[str, _Source] = {}
        self._wide: list[_Source] = []
        """That of all namespaces, and one that is to follow it."""

    @property
    def namespaces(self) -> Set[str]:
        """Those that are followed."""
        return self._wanted

    @property
    def problem(self) -> str:
        """Reason why objects may be old, in a line; "" while there is none."""
        return next(filter(None, (source.informer.problem for source in self._sources())), "")

    def is_known(self, namespace: str) -> bool:
        """True once all objects of a namespace have been read."""
        return namespace in self._wanted and any(
            source.informer.synced for source in self._sources() if namespace in source.namespaces
        )

    def of(self, namespace: str) -> Mapping[str, T]:
        """The objects of a namespace by "namespace/name", as far as they are known."""
        return self._objects.get(namespace, {})

    async def catch_up(self, namespace: str, patience: float) -> None:
        """Wait until all of a namespace is known that was written before; see ``Informer``."""
        for source in list(self._sources()):
            if namespace in source.namespaces and source.informer.synced:
                await source.informer.catch_up(patience)
                return

    def follow(self, group: TaskGroup, namespaces: Set[str]) -> None:
        """Follow just these namespaces, in ``group``; to be called again and again.

        A namespace that is not among them any more is forgotten without a call of the handler.
        """
        before, self._wanted = self._wanted, frozenset(namespaces)
        for namespace in before - namespaces:
            self._objects.pop(namespace, None)
            self._stop(self._own.pop(namespace, None))
        self._succeed()
        for namespace in namespaces - before:
            self._recall(namespace)
        missing = {
            namespace
            for namespace in namespaces
            if not any(namespace in each for each in self._reached())
        }
        if len(self._own) + len(missing) <= MOST_OWN:
            for namespace in missing:
                self._own[namespace] = self._started(group, {namespace}, namespace)
        elif len(self._wide) < 2:
            self._wide.append(self._started(group, frozenset(namespaces), ""))

    def _succeed(self) -> None:
        """Let a source of all namespaces that has read everything replace the others."""
        if self._wide and self._wide[-1].informer.synced:
            for source in self._wide[:-1]:
                self._stop(source)
            self._wide = self._wide[-1:]
            for namespace in self._own.keys() & self._wide[0].namespaces:
                self._stop(self._own.pop(namespace))
        if self._wide and not any(source.namespaces & self._wanted for source in self._wide):
            for source in self._wide:
                self._stop(source)
            self._wide = []

    def _recall(self, namespace: str) -> None:
        """Tell what is known of a namespace that was left and is asked for again."""
        for source in self._wide:
            for key, value in (
                source.informer.objects.items() if namespace in source.namespaces else ()
            ):
                self._changed(key, None, value)

    def _reached(self) -> Iterator[Set[str]]:
        return (source.namespaces for source in self._sources())

    def _sources(self) -> Iterator[_Source]:
        yield from self._own.values()
        yield from self._wide

    def _started(self, group: TaskGroup, namespaces: Set[str], namespace: str) -> _Source:
        def decode(raw: bytes) -> T | None:
            """Nothing, which an informer does not keep, of what is elsewhere."""
            if namespace or _OBJECT.decode(raw).metadata.namespace in namespaces:
                return self._decode(raw)
            return None

        informer: Informer[T | None] = Informer(
            self._api,
            self._resource,
            namespace=namespace,
            decode=decode,
            on_change=self._changed,
            **self._more,
        )
        source = _Source(namespaces, informer, anyio.CancelScope())
        group.start_soon(source.run)
        return source

    def _stop(self, source: _Source | None) -> None:
        if source is not None:
            source.scope.cancel()

    def _changed(self, key: str, _before: T | None, now: T | None) -> None:
        namespace = key.partition("/")[0]
        if namespace not in self._wanted:
            return
        there = self._objects.setdefault(namespace, {})
        before = there.pop(key, None)
        if now is not None:
            there[key] = now
        if self._on_change is not None and before != now:
            self._on_change(key, before, now)
