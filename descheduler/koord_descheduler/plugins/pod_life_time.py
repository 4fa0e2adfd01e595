"""PodLifeTime of the upstream descheduler: pods that are too old are started anew. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from koord_scheduler.arguments.fields import NotNegative, Strict
from koord_scheduler.arguments.problems import problem

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.framework.selected_pods import SelectedPods, SelectedPodsArgs
from koord_descheduler.objects.observed_pod import ConditionState, ObservedPod
from koord_descheduler.planner.move import Destination
from koord_descheduler.plugin import DeschedulerPlugin

PodState = Literal[
    "Running",
    "Pending",
    "Succeeded",
    "Failed",
    "Unknown",
    "NodeAffinity",
    "NodeLost",
    "Shutdown",
    "UnexpectedAdmissionError",
    "PodInitializing",
    "ContainerCreating",
    "ImagePullBackOff",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "ErrImagePull",
    "CreateContainerError",
    "InvalidImageName",
    "OOMKilled",
    "Error",
    "Completed",
    "DeadlineExceeded",
    "Evicted",
    "ContainerCannotRun",
    "StartError",
]
"""Phases of pods, their reasons, reasons of containers that wait, and of those that ended."""


class LifeTimeCondition(Strict, frozen=True):
    """A condition of a pod; "" for any. It holds for so many seconds at least."""

    type: str = ""
    status: str = ""
    reason: str = ""
    min_time_since_last_transition_seconds: NotNegative | None = None


class OwnerKinds(Strict, frozen=True):
    """Kinds of owners whose pods count: those to ``include``, or all but those to ``exclude``."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class PodLifeTimeArgs(SelectedPodsArgs, frozen=True):
    """Arguments of PodLifeTime: what is given has to hold all together.

    ``states`` are phases of pods, their reasons, or reasons of containers that wait or ended.
    """

    max_pod_life_time_seconds: NotNegative | None = None
    states: tuple[PodState, ...] = ()
    conditions: tuple[LifeTimeCondition, ...] = ()
    exit_codes: tuple[int, ...] = ()
    owner_kinds: OwnerKinds | None = None
    including_init_containers: bool = False
    including_ephemeral_containers: bool = False

    def problems(self, path: str) -> Iterator[str]:
        yield from super().problems(path)
        others = self.states or self.conditions or self.exit_codes
        if self.max_pod_life_time_seconds is None and not others:
            expected = "a number of seconds, or states, conditions or exitCodes"
            yield problem(f"{path}.maxPodLifeTimeSeconds", None, expected)
        for place, condition in enumerate(self.conditions):
            if condition == LifeTimeCondition():
                yield problem(f"{path}.conditions[{place}]", {}, "a type, status, reason or time")
        kinds = self.owner_kinds
        if kinds is not None and kinds.include and kinds.exclude:
            yield problem(f"{path}.ownerKinds", "include and exclude", "one of them")


class PodLifeTime(DeschedulerPlugin):
    """Upstream's plugin of that name."""

    name: ClassVar[str] = "PodLifeTime"
    Args: ClassVar[type[PodLifeTimeArgs]] = PodLifeTimeArgs

    def __init__(self, args: PodLifeTimeArgs) -> None:
        self._args = args
        self._pods = SelectedPods(args)
        kinds = {"": True, "init": args.including_init_containers}
        kinds["ephemeral"] = args.including_ephemeral_containers
        self._kinds = {kind for kind, counts in kinds.items() if counts}

    def deschedule(self, cluster: ProfileRound) -> None:
        now = cluster.now
        pods = (pod for pod in self._pods.of(cluster) if self._is_meant(pod.view, now))
        # The oldest first: budgets may not be enough for all.
        for pod in sorted(pods, key=lambda pod: (pod.view.created, pod.view.key)):
            cluster.move(pod, self._reason(pod.view, now), destination=Destination.ANYWHERE)

    def _reason(self, pod: ObservedPod, now: float) -> str:
        most = self._args.max_pod_life_time_seconds
        if most is None:
            return "states, conditions or exitCodes of PodLifeTime are as it is"
        return f"it is {now - pod.created:.0f} s old, maxPodLifeTimeSeconds is {most}"

    def _is_meant(self, pod: ObservedPod, now: float) -> bool:
        args, most = self._args, self._args.max_pod_life_time_seconds
        return (
            (most is None or int(now - pod.created) > most)
            and (not args.states or bool(self._states(pod) & {*args.states}))
            and self._has_owner(pod)
            and (not args.exit_codes or bool(self._exit_codes(pod) & {*args.exit_codes}))
            and (not args.conditions or any(_holds(pod, given, now) for given in args.conditions))
        )

    def _states(self, pod: ObservedPod) -> set[str]:
        containers = [container for container in pod.containers if container.kind in self._kinds]
        return {
            pod.phase,
            pod.reason,
            *(container.waiting for container in containers),
            *(container.terminated for container in containers),
        } - {""}

    def _exit_codes(self, pod: ObservedPod) -> set[int]:
        kinds = self._kinds - {"ephemeral"}
        codes = (container.exit_code for container in pod.containers if container.kind in kinds)
        return {code for code in codes if code is not None}

    def _has_owner(self, pod: ObservedPod) -> bool:
        kinds = self._args.owner_kinds
        if kinds is None:
            return True
        own = {owner.kind for owner in pod.template.owners}
        if kinds.include:
            return bool(own & {*kinds.include})
        return not own & {*kinds.exclude}


def _holds(pod: ObservedPod, asked: LifeTimeCondition, now: float) -> bool:
    return any(
        asked.type in ("", condition.type)
        and asked.status in ("", condition.status)
        and asked.reason in ("", condition.reason)
        and _lasts(condition, asked.min_time_since_last_transition_seconds, now)
        for condition in pod.conditions
    )


def _lasts(condition: ConditionState, seconds: int | None, now: float) -> bool:
    return seconds is None or bool(condition.since and now - condition.since >= seconds)
