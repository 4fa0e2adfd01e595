"""The cluster as the API says: the scheduler's state, and what else is read of pods. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from koord_kube.protocol.resources import NODE_METRICS, NODES, PODS
from koord_scheduler.config.scheduler_config import SchedulerConfig
from koord_scheduler.framework.cluster_kinds import cluster_kinds
from koord_scheduler.framework.profile import Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.plugins.load_aware.node_metric import (
    NodeMetricView,
    NodeReport,
    read_node_metric,
)
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_reader import ClusterPod, PodReader

from koord_descheduler.objects.observed_node import ObservedNode, read_observed_node
from koord_descheduler.objects.observed_pod import (
    ObservedPod,
    ObservedPodReader,
    WorkloadName,
)
from koord_descheduler.planner.workloads import Workloads

K = TypeVar("K")


class KnownPod(NamedTuple):
    """A pod: as the scheduler has it, what else is read of it, and how it would wait anew."""

    placed: ClusterPod
    view: ObservedPod
    replacement: ClusterPod


class ClusterModel:
    """Nodes, pods and reports; ``scheduler`` has the same, and places pods as the real one does.

    ``config`` is the real scheduler's. Pods of a scheduler that is not in it are placed as those
    of its first profile.
    """

    def __init__(self, config: SchedulerConfig, *, seed: int = 0) -> None:
        profiles = [profile.guarded() for profile in config.profiles]
        self.scheduler = Scheduler(profiles, nodes=ClusterState(seed=seed))
        self._names = {profile.scheduler_name for profile in profiles}
        self._fallback: Profile = profiles[0]
        self._reader = PodReader(self.scheduler.nodes)
        self._views = ObservedPodReader()
        self._pods: dict[str, KnownPod] = {}
        self._on: dict[str, dict[str, KnownPod]] = {}
        self._copies: dict[WorkloadName, dict[str, KnownPod]] = {}
        self._pod_handlers: list[Callable[[str], None]] = []
        self.workloads = Workloads()
        self.nodes_version = 0
        """It changes with the labels and taints of nodes, and with those that come and go.

        Not with trials, which change the scheduler's state and take that back.
        """
        self._nodes: dict[str, ObservedNode] = {}
        self._reports: dict[str, NodeReport] = {}

    @property
    def pods(self) -> Mapping[str, KnownPod]:
        """All pods by namespace/name, those that ended too."""
        return self._pods

    @property
    def nodes(self) -> Mapping[str, ObservedNode]:
        """All nodes by name."""
        return self._nodes

    @property
    def reports(self) -> Mapping[str, NodeReport]:
        """The last NodeMetric of each node."""
        return self._reports

    def pods_on(self, node: str) -> Iterable[KnownPod]:
        """The pods of a node."""
        return self.pods_by_key(node).values()

    def pods_by_key(self, node: str) -> Mapping[str, KnownPod]:
        """The pods of a node by namespace/name."""
        return self._on.get(node) or {}

    def copies(self, workload: WorkloadName) -> Iterable[KnownPod]:
        """The pods of a workload, those that ended too."""
        return self._copies.get(workload, {}).values()

    def subscribe(self, handler: Callable[[str], None]) -> Callable[[], None]:
        """Call ``handler`` with the key of each pod that came, changed or went.

        Call what is returned to end that.
        """
        self._pod_handlers.append(handler)
        return lambda: self._pod_handlers.remove(handler)

    def kinds(self, now: Callable[[], float]) -> Iterator[ClusterKind]:
        """The kinds of objects to follow, and where they go; ``now`` is in monotonic seconds."""
        for kind in cluster_kinds(self.scheduler, now):
            if kind.resource == NODES:
                yield kind._replace(
                    read=read_observed_node, put=self._put_node, remove=self._drop_node
                )
            elif kind.resource != NODE_METRICS and kind.is_needed:
                yield kind
        yield self._node_metrics(cluster_kinds(self.scheduler, now))
        yield ClusterKind(
            PODS,
            msgspec.Struct,
            self.read_pod,
            lambda key, pod: self.set_pod(key, pod, now()),
            self.remove_pod,
        )

    def _node_metrics(self, kinds: Iterable[ClusterKind]) -> ClusterKind:
        """Reports are kept, and go to the scheduler's plugins where these want them."""
        of_scheduler = [kind for kind in kinds if kind.resource == NODE_METRICS and kind.is_needed]

        def put(name: str, report: NodeReport) -> None:
            self._reports[name] = report
            for kind in of_scheduler:
                kind.put(name, report)

        def remove(name: str) -> None:
            self._reports.pop(name, None)
            for kind in of_scheduler:
                kind.remove(name)

        return ClusterKind(
            NODE_METRICS, NodeMetricView, read_node_metric, put, remove, is_optional=True
        )

    def read_pod(self, raw: bytes) -> KnownPod:
        """The pod in a JSON document.

        Raises:
            ValueError: it is not a Pod, or a quantity or a selector in it is not one.
        """
        replacement = self._reader.read_replacement(raw)
        waiting = replacement.waiting
        if waiting is not None and waiting.scheduler_name not in self._names:
            waiting = waiting._replace(scheduler_name=self._fallback.scheduler_name)
            replacement = replacement._replace(waiting=waiting)
        return KnownPod(self._reader.read(raw), self._views.read(raw), replacement)

    def set_pod(self, key: str, pod: KnownPod, now: float) -> None:
        """A pod is there, or has changed; one that ended takes no room."""
        self._forget(key)
        self._pods[key] = pod
        if pod.view.node:
            self._on.setdefault(pod.view.node, {})[key] = pod
        if (workload := pod.view.template.workload) is not None:
            self._copies.setdefault(workload, {})[key] = pod
        if pod.view.has_ended:
            self.scheduler.remove_pod(key)
        else:
            self.scheduler.set_pod(pod.placed, now)
        self._notify(key)

    def remove_pod(self, key: str) -> None:
        """A pod is gone."""
        self._forget(key)
        self.scheduler.remove_pod(key)
        self._notify(key)

    def _notify(self, key: str) -> None:
        for handler in self._pod_handlers:
            handler(key)

    def _forget(self, key: str) -> None:
        pod = self._pods.pop(key, None)
        if pod is None:
            return
        _discard(self._on, pod.view.node, key)
        if (workload := pod.view.template.workload) is not None:
            _discard(self._copies, workload, key)

    def _put_node(self, name: str, node: Any) -> None:
        self._nodes[name] = node
        before = self.scheduler.nodes.version
        self.scheduler.nodes.set(node.node)
        self.nodes_version += self.scheduler.nodes.version - before

    def _drop_node(self, name: str) -> None:
        del self._nodes[name]
        self.scheduler.nodes.remove(name)
        self.nodes_version += 1


def _discard(index: dict[K, dict[str, KnownPod]], of: K, key: str) -> None:
    pods = index.get(of)
    if pods is not None:
        pods.pop(key, None)
        if not pods:
            del index[of]
