"""One list and one watch of all pods, for readers that each need a part of every pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from anyio.abc import TaskGroup
from koord_kube.core.warnings import OnWarning
from koord_kube.informer import Handler, Informer
from koord_kube.protocol.api import Api
from koord_kube.protocol.resources import PODS
from koord_kube.views.pod import ClusterPodDocument, decode_pod

from koord_manager.metrics_apis.core.pods import PodIndex, metric_pod

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Part:
    """A reader's part of each pod, and who hears of its changes."""

    read: Callable[[ClusterPodDocument], Any]
    on_change: Handler[Any] | None


class SharedPods:
    """All pods by ``informer``, each decoded once; ``index`` has them by namespace.

    Readers have to be added before the informer runs.
    """

    def __init__(self, api: Api, index: PodIndex, *, on_warning: OnWarning) -> None:
        self.index = index
        self._parts = [_Part(metric_pod, index.changed)]
        self.informer: Informer[tuple[Any, ...]] = Informer(
            api, PODS, decode=self._decode, on_change=self._changed, on_warning=on_warning
        )

    def add(self, read: Callable[[ClusterPodDocument], T], on_change: Handler[T] | None) -> int:
        """Add a reader of all pods, which hears only of what changes for it; return its place."""
        self._parts.append(_Part(read, on_change))
        return len(self._parts) - 1

    def some(
        self, read: Callable[[ClusterPodDocument], T], on_change: Handler[T] | None = None
    ) -> SomeSharedPods[T]:
        """Add a reader of some namespaces."""
        pods: SomeSharedPods[T] = SomeSharedPods(self, on_change)
        pods.place = self.add(read, pods.changed if on_change else None)
        return pods

    def _decode(self, raw: bytes) -> tuple[Any, ...]:
        pod = decode_pod(raw)
        return tuple(part.read(pod) for part in self._parts)

    def _changed(
        self, key: str, before: tuple[Any, ...] | None, now: tuple[Any, ...] | None
    ) -> None:
        for place, part in enumerate(self._parts):
            if part.on_change is None:
                continue
            was = before[place] if before is not None else None
            is_now = now[place] if now is not None else None
            if was != is_now:
                part.on_change(key, was, is_now)


class SomeSharedPods(Generic[T]):
    """Pods of those namespaces that are asked for; as ``NamespacedInformers``, without requests."""

    def __init__(self, pods: SharedPods, on_change: Handler[T] | None) -> None:
        self._pods = pods
        self._on_change = on_change
        self._wanted: Set[str] = frozenset()
        self.place = 0
        """Place of the reader's part in what the informer keeps."""

    @property
    def namespaces(self) -> Set[str]:
        """Those that are followed."""
        return self._wanted

    @property
    def problem(self) -> str:
        """Reason why pods may be old, in a line; "" while there is none."""
        return self._pods.informer.problem

    def is_known(self, namespace: str) -> bool:
        """True once all pods of a namespace have been read."""
        return namespace in self._wanted and self._pods.informer.synced

    def of(self, namespace: str) -> Mapping[str, T]:
        """The pods of a namespace by "namespace/name", as far as they are known."""
        return dict(self._there(namespace)) if namespace in self._wanted else {}

    def follow(self, _group: TaskGroup, namespaces: Set[str]) -> None:
        """Follow just these namespaces; those that are left are forgotten without a call."""
        before, self._wanted = self._wanted, frozenset(namespaces)
        if self._on_change is not None:
            for namespace in self._wanted - before:
                for key, pod in self._there(namespace):
                    self._on_change(key, None, pod)

    def changed(self, key: str, before: T | None, now: T | None) -> None:
        """Take in a change, as an informer's handler."""
        if self._on_change is not None and key.partition("/")[0] in self._wanted:
            self._on_change(key, before, now)

    def _there(self, namespace: str) -> Iterator[tuple[str, T]]:
        known = self._pods.informer.objects
        for pod in self._pods.index.everywhere(namespace):
            key = f"{namespace}/{pod.name}"
            yield key, known[key][self.place]
