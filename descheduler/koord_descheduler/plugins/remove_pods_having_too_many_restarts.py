"""RemovePodsHavingTooManyRestarts of the upstream descheduler. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from koord_scheduler.arguments.fields import Int32
from koord_scheduler.arguments.problems import problem

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.framework.selected_pods import SelectedPods, SelectedPodsArgs
from koord_descheduler.objects.observed_pod import ContainerState, ObservedPod
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
        found = [(self._restarts(pod.view), pod) for pod in self._pods.of(cluster)]
        # Those that restart most first: budgets may not be enough for all.
        for restarts, pod in sorted(found, key=lambda pair: (-pair[0], pair[1].view.key)):
            if restarts >= most and self._is_in_state(pod.view):
                reason = f"its containers restarted {restarts} times, podRestartThreshold is {most}"
                cluster.move(pod, reason, destination=Destination.ANYWHERE)

    def _containers(self, pod: ObservedPod) -> list[ContainerState]:
        kinds = ("", "init") if self._args.including_init_containers else ("",)
        return [container for container in pod.containers if container.kind in kinds]

    def _restarts(self, pod: ObservedPod) -> int:
        return sum(container.restarts for container in self._containers(pod))

    def _is_in_state(self, pod: ObservedPod) -> bool:
        states = {pod.phase, *(container.waiting for container in self._containers(pod))}
        return not self._args.states or bool(states & {*self._args.states})
