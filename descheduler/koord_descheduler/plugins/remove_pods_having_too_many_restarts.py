"""RemovePodsHavingTooManyRestarts of the upstream descheduler. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from koord_scheduler.arguments.fields import Int32
from koord_scheduler.arguments.problems import problem

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.framework.selected_pods import SelectedPods, SelectedPodsArgs
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.move import Destination
from koord_descheduler.plugin import DeschedulerPlugin


class RestartsArgs(SelectedPodsArgs, frozen=True):
    """Arguments of RemovePodsHavingTooManyRestarts; without ``states`` those of all pods count."""

    pod_restart_threshold: Int32 = 0
    including_init_containers: bool = False
    states: tuple[Literal["Running", "CrashLoopBackOff"], ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        yield from super().problems(path)
        if self.pod_restart_threshold < 1:
            at = f"{path}.podRestartThreshold"
            yield problem(at, self.pod_restart_threshold, "1 or more")


class RemovePodsHavingTooManyRestarts(DeschedulerPlugin):
    """Upstream's plugin of that name."""

    name: ClassVar[str] = "RemovePodsHavingTooManyRestarts"
    Args: ClassVar[type[RestartsArgs]] = RestartsArgs

    def __init__(self, args: RestartsArgs) -> None:
        self._args = args
        self._pods = SelectedPods(args)

    def deschedule(self, cluster: ProfileRound) -> None:
        most = self._args.pod_restart_threshold
        for pod in self._pods.of(cluster):
            restarts = self._restarts(pod.view)
            if restarts >= most and self._is_in_state(pod.view):
                reason = f"its containers restarted {restarts} times, at most {most} are allowed"
                cluster.move(pod, reason, destination=Destination.ANYWHERE)

    def _restarts(self, pod: ObservedPod) -> int:
        kinds = ("", "init") if self._args.including_init_containers else ("",)
        return sum(one.restarts for one in pod.containers if one.kind in kinds)

    def _is_in_state(self, pod: ObservedPod) -> bool:
        states = {pod.phase, *(one.waiting for one in pod.containers)}
        return not self._args.states or bool(states & {*self._args.states})
