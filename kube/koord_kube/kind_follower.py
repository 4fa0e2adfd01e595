"""Objects of several kinds, followed from the API into a state; one list and watch for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import anyio

from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api
from koord_kube.protocol.resources import Resource
from koord_kube.protocol.selectors import EVERYTHING, ApiSelector, all_of
from koord_kube.shared_informers import SharedInformers

SILENT_SECONDS = 30.0
"""After so long without following a kind nothing is decided: the cluster may have changed."""

_LIST_SECONDS = 5e-5
"""Approximate time of an object in a list: a watch gets as long before a list replaces it."""
_MOST_PATIENCE = 1.0


class FollowedKind(Protocol):
    """A kind, how its objects are read, and their receivers: ``put`` and ``remove`` by key.

    An API server may lack one that ``is_optional``. With an ``object_name`` it is one object, with
    a ``field_selector`` some of them.
    """

    @property
    def resource(self) -> Resource: ...
    @property
    def read(self) -> Callable[[bytes], Any]: ...
    @property
    def put(self) -> Callable[[str, Any], object]: ...
    @property
    def remove(self) -> Callable[[str], object]: ...
    @property
    def is_optional(self) -> bool: ...
    @property
    def namespace(self) -> str: ...
    @property
    def object_name(self) -> str: ...
    @property
    def has_decisions(self) -> bool: ...
    @property
    def field_selector(self) -> ApiSelector: ...


class KindFollower:
    """Informers of kinds that are to be followed; ``on_change`` is called after each change."""

    def __init__(
        self,
        api: Api,
        on_change: Callable[[], None],
        *,
        on_warning: OnWarning = ignore_warning,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_change = on_change
        self._monotonic = monotonic
        self._informers = SharedInformers(api, on_warning=on_warning)
        self._lost: dict[Informer[Any], float] = {}
        """Since when kinds are not followed: a quiet one has no events while it is."""
        self._decided: list[Informer[Any]] = []

    def follow(
        self, kind: FollowedKind, *, field_selector: ApiSelector = EVERYTHING
    ) -> Informer[Any]:
        """Call ``put`` for objects that are there or have changed, ``remove`` for others."""

        def changed(key: str, _before: object, now: object) -> None:
            if now is None:
                kind.remove(key)
            else:
                kind.put(key, now)
            self._on_change()

        informer = self._informers.get(
            kind.resource,
            kind.read,
            name=kind.object_name,
            namespace=kind.namespace,
            field_selector=all_of(kind.field_selector, field_selector),
            optional=kind.is_optional,
        )
        informer.subscribe(changed)
        if kind.has_decisions:
            self._decided.append(informer)
        return informer

    def problems(self) -> Iterator[str]:
        """Describe failed reads, a line each."""
        for resource, informer in self._informers:
            if informer.is_optional and informer.absent:
                continue
            if not informer.synced:
                yield f"{resource.plural}: not read yet"
            elif informer.problem:
                yield informer.problem

    def absent_kinds(self) -> list[str]:
        """The optional kinds that the API server does not have, with their versions."""
        return [
            f"{resource.plural} ({resource.group}/{resource.version})"
            for resource, informer in self._informers
            if informer.absent
        ]

    def silence(self) -> str:
        """Return why nothing may be decided at present, in a line; "" if it may."""
        now, reason = self._monotonic(), ""
        for resource, informer in self._informers:
            if informer.is_optional and informer.absent:
                continue
            if not informer.synced:
                reason = reason or f"{resource.plural}: not read yet"
            elif informer.is_followed:
                self._lost.pop(informer, None)
            else:
                seconds = now - self._lost.setdefault(informer, now)
                if seconds > SILENT_SECONDS:
                    reason = reason or f"{resource.plural}: not followed for {seconds:.0f} s"
        return reason

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        await self._informers.run()

    async def wait_synced(self) -> None:
        """Wait until all kinds were read once."""
        await self._informers.wait_synced()

    async def catch_up(self) -> None:
        """Wait until all is known that leaders had promised to pods before this call.

        The leader before may have bound pods of which the watch, being late, says nothing yet.
        """
        async with anyio.create_task_group() as group:
            for informer in self._decided:
                patience = min(_MOST_PATIENCE, _LIST_SECONDS * len(informer.objects))
                group.start_soon(informer.catch_up, patience)
