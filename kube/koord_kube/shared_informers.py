"""Informers that several users share: one list and one watch for each kind and view."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

from koord_kube.core.reflector import ReflectorTiming
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api
from koord_kube.protocol.resources import Resource
from koord_kube.protocol.selectors import EVERYTHING, ApiSelector

T = TypeVar("T")


class SharedInformers:
    """Creates informers, and runs them; later ones start at once."""

    def __init__(
        self,
        api: Api,
        *,
        on_warning: OnWarning = ignore_warning,
        timing: ReflectorTiming | None = None,
    ) -> None:
        self._api = api
        self._on_warning = on_warning
        self._timing = timing
        self._informers: dict[Hashable, tuple[Resource, Informer[Any]]] = {}
        self._group: TaskGroup | None = None

    def get(
        self,
        resource: Resource,
        decode: Callable[[bytes], T],
        *,
        name: str = "",
        namespace: str = "",
        field_selector: ApiSelector = EVERYTHING,
        optional: bool = False,
    ) -> Informer[T]:
        """The informer of a kind and view; ``decode`` is the view, so share the function too."""
        key = resource, decode, name, namespace, field_selector
        known = self._informers.get(key)
        if known is not None:
            return known[1]
        made = Informer(
            self._api,
            resource,
            name=name,
            namespace=namespace,
            field_selector=field_selector,
            optional=optional,
            decode=decode,
            on_warning=self._on_warning,
            timing=self._timing,
        )
        self._informers[key] = resource, made
        if self._group is not None:
            self._group.start_soon(made.run)
        return made

    def __iter__(self) -> Iterator[tuple[Resource, Informer[Any]]]:
        """All of them, with their kinds."""
        return iter(self._informers.values())

    async def wait_synced(self) -> None:
        """Wait for the first list of every informer, unless its kind is optional and not there."""
        for _, informer in tuple(self._informers.values()):
            await (informer.wait_known() if informer.is_optional else informer.wait_synced())

    async def run(self) -> None:
        """Follow them until cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                for _, informer in self._informers.values():
                    group.start_soon(informer.run)
                await anyio.sleep_forever()
            finally:
                self._group = None
