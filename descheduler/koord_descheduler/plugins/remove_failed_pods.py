"""RemoveFailedPods of the upstream descheduler: pods that failed are removed. No IO."""

from __future__ import annotations

from typing import ClassVar

from koord_scheduler.arguments.fields import NotNegative

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.framework.selected_pods import SelectedPods, SelectedPodsArgs
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.move import Destination
from koord_descheduler.plugin import DeschedulerPlugin


class RemoveFailedPodsArgs(SelectedPodsArgs, frozen=True):
    """Arguments of RemoveFailedPods; without ``reasons`` and ``exit_codes`` any failure counts."""

    exclude_owner_kinds: tuple[str, ...] = ()
    min_pod_lifetime_seconds: NotNegative | None = 3600
    reasons: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    including_init_containers: bool = False


class RemoveFailedPods(DeschedulerPlugin):
    """Upstream's plugin of that name."""

    name: ClassVar[str] = "RemoveFailedPods"
    Args: ClassVar[type[RemoveFailedPodsArgs]] = RemoveFailedPodsArgs

    def __init__(self, args: RemoveFailedPodsArgs) -> None:
        self._args = args
        self._pods = SelectedPods(args)

    def deschedule(self, cluster: ProfileRound) -> None:
        for pod in self._pods.of(cluster):
            if pod.view.phase == "Failed" and self._counts(pod.view, cluster.now):
                reason = f"it failed: {', '.join(sorted(self._reasons(pod.view))) or 'no reason'}"
                cluster.move(pod, reason, destination=Destination.NOWHERE)

    def _counts(self, pod: ObservedPod, now: float) -> bool:
        args = self._args
        if now - pod.created < (args.min_pod_lifetime_seconds or 0):
            return False
        if any(owner.kind in args.exclude_owner_kinds for owner in pod.template.owners):
            return False
        if args.exit_codes and not self._exit_codes(pod) & {*args.exit_codes}:
            return False
        return not args.reasons or bool(self._reasons(pod) & {*args.reasons})

    def _reasons(self, pod: ObservedPod) -> set[str]:
        found = {pod.reason, *(state for _, state in self._states(pod))}
        return found - {""}

    def _exit_codes(self, pod: ObservedPod) -> set[int]:
        return {code for code, _ in self._states(pod) if code is not None}

    def _states(self, pod: ObservedPod) -> list[tuple[int | None, str]]:
        """Exit code and reason of each container that counts."""
        kinds = ("", "init") if self._args.including_init_containers else ("",)
        return [
            (container.exit_code, container.terminated or container.waiting)
            for container in pod.containers
            if container.kind in kinds
        ]
