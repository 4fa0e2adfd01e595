"""RemovePodsViolatingInterPodAntiAffinity of the upstream descheduler. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from koord_scheduler.objects.pod_affinity import AffinityTerm
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.domains import NodeScope
from koord_scheduler.state.pod_counts import AffinitySelector

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.framework.selected_pods import SelectedPods, SelectedPodsArgs
from koord_descheduler.planner.cluster import KnownPod
from koord_descheduler.plugin import DeschedulerPlugin


class RemovePodsViolatingInterPodAntiAffinity(DeschedulerPlugin):
    """Upstream's plugin of that name: pods came or changed since others were placed.

    The least important pods go first, until those that stay may be together.
    """

    name: ClassVar[str] = "RemovePodsViolatingInterPodAntiAffinity"
    Args: ClassVar[type[SelectedPodsArgs]] = SelectedPodsArgs

    def __init__(self, args: SelectedPodsArgs) -> None:
        self._pods = SelectedPods(args)

    def deschedule(self, cluster: ProfileRound) -> None:
        pods = [pod for pod in self._pods.of(cluster) if _terms(pod)]
        for pod in sorted(pods, key=_importance):
            if _is_violated(pod, cluster.cluster.scheduler.nodes):
                cluster.move(pod, "its anti-affinity forbids it to be beside a pod that is there")


def _terms(pod: KnownPod) -> Sequence[AffinityTerm]:
    waiting = pod.replacement.waiting
    return () if waiting is None or pod.view.has_ended else waiting.pod_class.affinity.anti


def _is_violated(pod: KnownPod, state: ClusterState) -> bool:
    """True if another pod is in its domain of a term that means this other one."""
    row, waiting = state.row(pod.view.node), pod.replacement.waiting
    if row is None or waiting is None:
        return False
    for term in _terms(pod):
        meant = AffinitySelector(((state.namespaces.of(term), term.selector),))
        domains = state.domains(term.key, NodeScope((term.key,), None, None))
        code = int(domains.codes[row])
        there = state.pods.counter(meant).in_domains(domains).by_code[code]
        if code >= 0 and there > meant.matches(waiting.pod_class.labels):
            return True
    return False


def _importance(pod: KnownPod) -> tuple[int, float, str]:
    return pod.view.template.priority or 0, -pod.view.created, pod.view.key
