"""RemovePodsViolatingInterPodAntiAffinity of the upstream descheduler. No IO."""

from __future__ import annotations

from typing import ClassVar

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.framework.selected_pods import SelectedPods, SelectedPodsArgs
from koord_descheduler.planner.cluster import KnownPod
from koord_descheduler.plugin import DeschedulerPlugin

_RULE = "InterPodAffinity"


class RemovePodsViolatingInterPodAntiAffinity(DeschedulerPlugin):
    """Upstream's plugin of that name: pods came or changed since others were placed.

    The least important pods go first, until those that stay may be together.
    """

    name: ClassVar[str] = "RemovePodsViolatingInterPodAntiAffinity"
    Args: ClassVar[type[SelectedPodsArgs]] = SelectedPodsArgs

    def __init__(self, args: SelectedPodsArgs) -> None:
        self._pods = SelectedPods(args)

    def deschedule(self, cluster: ProfileRound) -> None:
        pods = [pod for pod in self._pods.of(cluster) if _keeps_others_off(pod)]
        for pod in sorted(pods, key=_importance):
            if _RULE in cluster.virtual.rejections(pod):
                cluster.move(pod, "its anti-affinity forbids it to be beside a pod that is there")


def _keeps_others_off(pod: KnownPod) -> bool:
    waiting = pod.replacement.waiting
    return waiting is not None and bool(waiting.pod_class.affinity.anti) and not pod.view.has_ended


def _importance(pod: KnownPod) -> tuple[int, float, str]:
    return pod.view.template.priority or 0, -pod.view.created, pod.view.key
