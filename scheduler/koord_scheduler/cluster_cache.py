"""What the scheduler knows of the cluster, followed on every replica."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api
from koord_kube.protocol.resources import NODES, PODS, Resource
from koord_kube.shared_informers import SharedInformers

from koord_scheduler.classes.pod_reader import ClusterPod, PodReader
from koord_scheduler.framework.cluster_kinds import cluster_kinds
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.node import Node

T = TypeVar("T")

SILENT_SECONDS = 30.0
"""After so long without a word from the API nothing is decided: the cluster may have changed."""

_NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"


class ClusterCache:
    """Informers that keep a ``Scheduler`` up to date; ``on_change`` is called after changes."""

    def __init__(
        self,
        api: Api,
        scheduler: Scheduler,
        *,
        on_change: Callable[[], None],
        on_warning: OnWarning = ignore_warning,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_change = on_change
        self._monotonic = monotonic
        self._informers = SharedInformers(api, on_warning=on_warning)
        for kind in cluster_kinds(scheduler):
            informer = self._follow(*kind)
            if kind.resource == NODES:
                self._nodes: Informer[Node] = informer
        self._pods = self._follow(
            PODS,
            PodReader(scheduler.nodes).read,
            lambda _, pod: scheduler.set_pod(pod, monotonic()),
            scheduler.remove_pod,
            field_selector=_NOT_ENDED,
        )

    @property
    def pods(self) -> Mapping[str, ClusterPod]:
        """All pods that have not ended."""
        return self._pods.objects

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes."""
        return self._nodes.objects

    def troubles(self) -> Iterator[str]:
        """What could not be read, a line each."""
        for resource, informer in self._informers:
            if not informer.synced:
                yield f"{resource.plural}: not read yet"
            elif informer.trouble:
                yield informer.trouble

    def silence(self) -> str:
        """Why nothing may be decided at present, in a line; "" if it may."""
        now = self._monotonic()
        for resource, informer in self._informers:
            if not informer.synced:
                return f"{resource.plural}: not read yet"
            if informer.trouble and informer.age(now) > SILENT_SECONDS:
                return f"{resource.plural}: not followed for {informer.age(now):.0f} s"
        return ""

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        await self._informers.run()

    async def wait_synced(self) -> None:
        """Wait until all kinds were read once."""
        await self._informers.wait_synced()

    def _follow(
        self,
        resource: Resource,
        read: Callable[[bytes], T],
        put: Callable[[str, T], object],
        remove: Callable[[str], object],
        *,
        field_selector: str = "",
    ) -> Informer[T]:
        """Call ``put`` for objects that are there or have changed, ``remove`` for others."""

        def changed(key: str, _before: T | None, now: T | None) -> None:
            if now is None:
                remove(key)
            else:
                put(key, now)
            self._on_change()

        informer = self._informers.get(resource, read, field_selector=field_selector)
        informer.subscribe(changed)
        return informer
