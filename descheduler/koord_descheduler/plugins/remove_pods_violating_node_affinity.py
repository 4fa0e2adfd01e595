"""RemovePodsViolatingNodeAffinity of the upstream descheduler. No IO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from koord_scheduler.arguments.problems import problem
from koord_scheduler.objects.node_selector import PreferredNodes
from koord_scheduler.state.arrays import Amounts, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.framework.selected_pods import SelectedPods, SelectedPodsArgs
from koord_descheduler.planner.cluster import KnownPod
from koord_descheduler.plugin import DeschedulerPlugin

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class ViolatedNodeAffinityArgs(SelectedPodsArgs, frozen=True):
    """Arguments of RemovePodsViolatingNodeAffinity."""

    node_affinity_type: tuple[
        Literal[
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        ],
        ...,
    ] = ()

    def problems(self, path: str) -> Iterator[str]:
        yield from super().problems(path)
        if not self.node_affinity_type:
            yield problem(f"{path}.nodeAffinityType", None, f"{REQUIRED} or {PREFERRED}")


class RemovePodsViolatingNodeAffinity(DeschedulerPlugin):
    """Upstream's plugin of that name: nodes changed since their pods were placed."""

    name: ClassVar[str] = "RemovePodsViolatingNodeAffinity"
    Args: ClassVar[type[ViolatedNodeAffinityArgs]] = ViolatedNodeAffinityArgs

    def __init__(self, args: ViolatedNodeAffinityArgs) -> None:
        self._types = args.node_affinity_type
        self._pods = SelectedPods(args)

    def deschedule(self, cluster: ProfileRound) -> None:
        state = cluster.cluster.scheduler.nodes
        by_class: dict[PodClass, list[KnownPod]] = defaultdict(list)
        for pod in self._pods.of(cluster):
            waiting = pod.replacement.waiting
            if waiting is not None and not pod.view.has_ended:
                by_class[waiting.pod_class].append(pod)
        for pod_class, pods in by_class.items():
            rows = np.array([state.row_of_pods(pod.view.node) for pod in pods], np.intp)
            if REQUIRED in self._types:
                self._required(cluster, pod_class, pods, rows)
            if PREFERRED in self._types and pod_class.preferred.terms:
                self._preferred(cluster, pod_class, pods, rows)

    def _required(
        self, cluster: ProfileRound, pod_class: PodClass, pods: list[KnownPod], rows: Rows
    ) -> None:
        matches = cluster.cluster.scheduler.nodes.matches(pod_class.required, rows)
        for pod, fits in zip(pods, matches.tolist(), strict=True):
            if not fits:
                cluster.move(pod, "its node does not match its node affinity any more")

    def _preferred(
        self, cluster: ProfileRound, pod_class: PodClass, pods: list[KnownPod], rows: Rows
    ) -> None:
        state = cluster.cluster.scheduler.nodes
        everywhere = np.arange(len(state))
        weights = preferred_weights(state, pod_class.preferred, everywhere)
        best = float(weights[state.is_node].max(initial=0.0))
        for pod, row in zip(pods, rows.tolist(), strict=True):
            own = float(weights[row])
            if own < best:
                reason = "other nodes match its preferred node affinity better"
                cluster.move(pod, reason, among=weights > own, arithmetic={"weight": own})


def preferred_weights(state: ClusterState, preferred: PreferredNodes, rows: Rows) -> Amounts:
    """Sum the weights of the preferred terms that each of these rows matches."""
    found = np.zeros(len(rows))
    for weight, term in preferred.terms:
        found += weight * state.matches_term(term, rows)
    return found
