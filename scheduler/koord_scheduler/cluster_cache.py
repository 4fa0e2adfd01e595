"""What the scheduler knows of the cluster, followed on every replica."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

import anyio
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api
from koord_kube.protocol.resources import NAMESPACES, NODES, PODS
from koord_kube.shared_informers import SharedInformers

from koord_scheduler.classes.pod_reader import ClusterPod, PodReader
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.namespace import read_namespace
from koord_scheduler.objects.node import Node, read_node

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
        self._scheduler = scheduler
        self._on_change = on_change
        self._monotonic = monotonic
        self._informers = SharedInformers(api, on_warning=on_warning)
        get = self._informers.get
        self._nodes: Informer[Node] = get(NODES, read_node)
        self._namespaces = get(NAMESPACES, _namespace_labels)
        self._pods: Informer[ClusterPod] = get(
            PODS, PodReader(scheduler.nodes).read, field_selector=_NOT_ENDED
        )
        self._nodes.subscribe(self._node_changed)
        self._namespaces.subscribe(self._namespace_changed)
        self._pods.subscribe(self._pod_changed)

    @property
    def pods(self) -> Mapping[str, ClusterPod]:
        """All pods that have not ended."""
        return self._pods.objects

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes."""
        return self._nodes.objects

    @property
    def synced(self) -> bool:
        """Whether all kinds were read once."""
        return all(informer.synced for _, informer in self._informers)

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
        await anyio.lowlevel.checkpoint()

    def _node_changed(self, name: str, _before: Node | None, now: Node | None) -> None:
        if now is None:
            self._scheduler.nodes.remove(name)
        else:
            self._scheduler.nodes.set(now)
        self._on_change()

    def _namespace_changed(
        self, name: str, _before: Mapping[str, str] | None, now: Mapping[str, str] | None
    ) -> None:
        if now is None:
            self._scheduler.nodes.namespaces.remove(name)
        else:
            self._scheduler.nodes.namespaces.set(name, now)
        self._on_change()

    def _pod_changed(self, key: str, _before: ClusterPod | None, now: ClusterPod | None) -> None:
        if now is None:
            self._scheduler.remove_pod(key)
        else:
            self._scheduler.set_pod(now, self._monotonic())
        self._on_change()


def _namespace_labels(raw: bytes) -> Mapping[str, str]:
    return read_namespace(raw).labels or {}
