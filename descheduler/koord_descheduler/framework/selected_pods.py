"""Pods that the arguments common to most of upstream's plugins select. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from koord_scheduler.arguments.base_args import PluginArgs

from koord_descheduler.framework.pod_selection import (
    EvictableNamespaces,
    parsed,
    selector_problems,
)
from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.cluster import KnownPod


class SelectedPodsArgs(PluginArgs, frozen=True):
    """Namespaces and labels of the pods that a plugin looks at."""

    namespaces: EvictableNamespaces | None = None
    label_selector: dict[str, Any] | None = None

    def problems(self, path: str) -> Iterator[str]:
        if self.namespaces is not None:
            yield from self.namespaces.problems(f"{path}.namespaces")
        yield from selector_problems(self.label_selector, f"{path}.labelSelector")


class SelectedPods:
    """The pods that ``args`` select."""

    def __init__(self, args: SelectedPodsArgs) -> None:
        self._namespaces = args.namespaces or EvictableNamespaces()
        self._labels = parsed(args.label_selector)

    def selects(self, pod: ObservedPod) -> bool:
        """True if a plugin looks at a pod."""
        if self._namespaces.refusal(pod.namespace):
            return False
        return self._labels.matches(pod.template.labels)

    def of(self, cluster: ProfileRound) -> Iterator[KnownPod]:
        """Those on the nodes of a round that did not move, by node and name."""
        for node in cluster.nodes:
            pods = (pod for pod in cluster.pods_on(node) if self.selects(pod.view))
            yield from sorted(pods, key=lambda pod: pod.view.key)
