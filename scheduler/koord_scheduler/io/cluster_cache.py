"""The scheduler's state of the cluster, followed on every replica."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.informer import Informer
from koord_kube.kind_follower import KindFollower
from koord_kube.protocol.api import Api
from koord_kube.protocol.resources import NODES
from koord_kube.protocol.selectors import EVERYTHING, ApiSelector, all_of, field_is_not

from koord_scheduler.extenders.api_documents import ApiDocuments
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.recording import Record, recorded_kind
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.node import Node
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.pod_reader import ClusterPod

_NOT_ENDED = all_of(
    field_is_not("status.phase", "Succeeded"), field_is_not("status.phase", "Failed")
)


class ClusterCache(KindFollower):
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
        super().__init__(api, on_change, on_warning=on_warning, monotonic=monotonic)
        self._record = record
        for kind in filter(lambda kind: kind.is_needed, cluster_kinds(scheduler, monotonic)):
            if kind.resource != NODES:
                self._follow_recorded(kind)
                continue
            read = documents.reading_nodes(kind.read)
            nodes = _forgetting(kind._replace(read=read), documents.forget_node)
            self._nodes: Informer[Node] = self._follow_recorded(nodes)
        kind = pod_kind(scheduler, monotonic)
        pods = _forgetting(
            kind._replace(read=documents.reading_pods(kind.read)), documents.forget_pod
        )
        self._pods: Informer[ClusterPod] = self._follow_recorded(pods, field_selector=_NOT_ENDED)

    @property
    def pods(self) -> Mapping[str, ClusterPod]:
        """All pods that have not ended."""
        return self._pods.objects

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes."""
        return self._nodes.objects

    def _follow_recorded(
        self, kind: ClusterKind, *, field_selector: ApiSelector = EVERYTHING
    ) -> Informer[Any]:
        if self._record is not None:
            kind = recorded_kind(kind, self._record, self._monotonic)
        return self.follow(kind, field_selector=field_selector)


def _forgetting(kind: ClusterKind, forget: Callable[[str], None]) -> ClusterKind:
    """The kind, of which an object that is gone is forgotten first."""

    def remove(key: str) -> None:
        forget(key)
        kind.remove(key)

    return kind._replace(remove=remove)
