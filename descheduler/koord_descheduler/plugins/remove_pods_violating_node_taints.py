"""RemovePodsViolatingNodeTaints of the upstream descheduler. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from koord_scheduler.arguments.problems import problem
from koord_scheduler.objects.node import Taint
from koord_scheduler.objects.tolerations import tolerates

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.framework.selected_pods import SelectedPods, SelectedPodsArgs
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.plugin import DeschedulerPlugin


class NodeTaintsArgs(SelectedPodsArgs, frozen=True):
    """Arguments of RemovePodsViolatingNodeTaints; taints are "key" or "key=value"."""

    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] = ()
    included_taints: tuple[str, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        yield from super().problems(path)
        if self.excluded_taints and self.included_taints:
            at = f"{path}.includedTaints"
            yield problem(at, "beside excludedTaints", "one of the two")


class RemovePodsViolatingNodeTaints(DeschedulerPlugin):
    """Upstream's plugin of that name."""

    name: ClassVar[str] = "RemovePodsViolatingNodeTaints"
    Args: ClassVar[type[NodeTaintsArgs]] = NodeTaintsArgs

    def __init__(self, args: NodeTaintsArgs) -> None:
        self._args = args
        self._pods = SelectedPods(args)
        preferred = ("PreferNoSchedule",) if args.include_prefer_no_schedule else ()
        self._effects = ("NoSchedule", *preferred)

    def deschedule(self, cluster: ProfileRound) -> None:
        for name, node in cluster.nodes.items():
            taints = [taint for taint in node.node.spec.taints or () if self._counts(taint)]
            if not taints:
                continue
            for pod in sorted(cluster.pods_on(name), key=lambda pod: pod.view.key):
                if not self._pods.selects(pod.view) or pod.view.has_ended:
                    continue
                taint = next(_untolerated(taints, pod.view), None)
                if taint is not None:
                    text = f"{taint.key}={taint.value}" if taint.value else taint.key
                    cluster.move(pod, f"it does not tolerate the taint {text}:{taint.effect}")

    def _counts(self, taint: Taint) -> bool:
        if taint.effect not in self._effects:
            return False
        names = {taint.key, f"{taint.key}={taint.value}"}
        if self._args.included_taints:
            return bool(names & {*self._args.included_taints})
        return not names & {*self._args.excluded_taints}


def _untolerated(taints: Iterable[Taint], pod: ObservedPod) -> Iterator[Taint]:
    for taint in taints:
        if not any(tolerates(toleration, taint) for toleration in pod.template.tolerations):
            yield taint
