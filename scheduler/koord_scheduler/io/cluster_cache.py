"""The scheduler's state of the cluster, followed on every replica."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import anyio
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api
from koord_kube.protocol.resources import NODES, Resource
from koord_kube.protocol.selectors import EVERYTHING, ApiSelector, all_of, field_is_not
from koord_kube.shared_informers import SharedInformers

from koord_scheduler.extenders.api_documents import ApiDocuments
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.recording import Record, recorded_kind
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.node import Node
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.pod_reader import ClusterPod

SILENT_SECONDS = 30.0
"""After so long without following a kind nothing is decided: the cluster may have changed."""

_LIST_SECONDS = 5e-5
"""Approximate time of an object in a list: a watch gets as long before a list replaces it."""
_MOST_PATIENCE = 1.0

_NOT_ENDED = all_of(
    field_is_not("status.phase", "Succeeded"), field_is_not("status.phase", "Failed")
)


class ClusterCache:
    """Informers that keep a ``Scheduler`` up to date; ``on_change`` is called after changes.

    ``documents`` gets what extenders may be sent; ``record`` hears of each change.
    """

    def __init__(
        self,
        api: Api,
        scheduler: Scheduler,
        documents: ApiDocuments,
        *,
        on_change: Callable[[], None],
        record: Record | None = None,
        on_warning: OnWarning = ignore_warning,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_change = on_change
        self._monotonic = monotonic
        self._informers = SharedInformers(api, on_warning=on_warning)
        self._lost: dict[Resource, float] = {}
        """Since when kinds are not followed: a quiet one has no events while it is."""
        self._decided: list[Informer[Any]] = []
        self._record = record
        for kind in filter(lambda one: one.is_needed, cluster_kinds(scheduler, monotonic)):
            if kind.resource != NODES:
                self._follow(kind)
                continue
            read = documents.reading_nodes(kind.read)
            nodes = _forgetting(kind._replace(read=read), documents.forget_node)
            self._nodes: Informer[Node] = self._follow(nodes)
        kind = pod_kind(scheduler, monotonic)
        pods = _forgetting(
            kind._replace(read=documents.reading_pods(kind.read)), documents.forget_pod
        )
        self._pods: Informer[ClusterPod] = self._follow(pods, field_selector=_NOT_ENDED)

    @property
    def pods(self) -> Mapping[str, ClusterPod]:
        """All pods that have not ended."""
        return self._pods.objects

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes."""
        return self._nodes.objects

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
                self._lost.pop(resource, None)
            else:
                seconds = now - self._lost.setdefault(resource, now)
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
        """Wait until all is known that schedulers had promised to pods before this call.

        The leader before may have bound pods of which the watch, being late, says nothing yet.
        """
        async with anyio.create_task_group() as group:
            for one in self._decided:
                patience = min(_MOST_PATIENCE, _LIST_SECONDS * len(one.objects))
                group.start_soon(one.catch_up, patience)

    def _follow(
        self, kind: ClusterKind, *, field_selector: ApiSelector = EVERYTHING
    ) -> Informer[Any]:
        """Call ``put`` for objects that are there or have changed, ``remove`` for others."""
        if self._record is not None:
            kind = recorded_kind(kind, self._record, self._monotonic)

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
            field_selector=field_selector,
            optional=kind.is_optional,
        )
        informer.subscribe(changed)
        if kind.has_decisions:
            self._decided.append(informer)
        return informer


def _forgetting(kind: ClusterKind, forget: Callable[[str], None]) -> ClusterKind:
    """The kind, of which an object that is gone is forgotten first."""

    def remove(key: str) -> None:
        forget(key)
        kind.remove(key)

    return kind._replace(remove=remove)
