"""The members of gangs among the pods of the cluster. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from koord_scheduler.framework.pod_states import PodStates
from koord_scheduler.framework.profile import Profile
from koord_scheduler.framework.queue.scheduling_queue import (
    ClassKey,
    GangAttempts,
    QueuedPod,
    SchedulingQueue,
)
from koord_scheduler.gangs.gangs import Gang, Gangs
from koord_scheduler.gangs.member import GANG_MEMBER
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_reader import ClusterPod


class GangStates(PodStates):
    """Keeps count of gangs, and which of their waiting pods wait together, which by themselves."""

    def __init__(
        self, profiles: Mapping[str, Profile], nodes: ClusterState, queue: SchedulingQueue
    ) -> None:
        self.gangs = nodes.use(Gangs)
        self.gangs.on_described = self._try_anew
        super().__init__(profiles, nodes, queue)

    def set_pod(self, pod: ClusterPod, now: float) -> None:
        """A pod is there, or has changed."""
        before, member = self.gangs.gang_of(pod.key), pod.parts.of(GANG_MEMBER)
        if member is None or (pod.is_leaving and pod.waiting is not None):
            self.gangs.remove_member(pod.key)
        else:
            is_bound = pod.waiting is None
            self.gangs.set_member(pod.key, pod.uid, member, is_bound=is_bound)
        for gang in (before, self.gangs.gang_of(pod.key)):
            self._regroup(gang)
        super().set_pod(pod, now)
        if before is not None:
            self._move(pod.key)

    def remove_pod(self, key: str) -> None:
        """A pod is gone."""
        super().remove_pod(key)
        self._regroup(self.gangs.remove_member(key))

    def _try_anew(self, gang: Gang | None) -> None:
        """Forget the attempts of a gang's group: its specification has changed."""
        self._regroup(gang)
        if gang is None or not gang.unit:
            return
        queue = self.queue.class_with(ClassKey("", None, gang=gang.unit))
        if queue is not None:
            queue.gang_attempts = GangAttempts(since=queue.gang_attempts.since)

    def confirm(self, pod: QueuedPod) -> None:
        """A pod that was placed is to be bound; it does not wait any more."""
        super().confirm(pod)
        self.gangs.assume(pod.key)

    def forget(self, pod: QueuedPod, now: float) -> None:
        """A pod did not get the node that it was given; its turn comes again."""
        super().forget(pod, now)
        self._regroup(self.gangs.gang_of(pod.key), pod.key)

    def _unplace(self, key: str) -> None:
        super()._unplace(key)
        self.gangs.forget(key)

    def regroup(self, pod: QueuedPod) -> None:
        """Let those of a pod's gang group that still wait do so together, or by themselves."""
        self._regroup(self.gangs.gang_of(pod.key))

    def _gang_unit(self, key: str, profile: Profile) -> str:
        gang = self.gangs.gang_of(key) if profile.gangs is not None else None
        return gang.unit if gang is not None else ""

    def _regroup(self, gang: Gang | None, *pods: str) -> None:
        """Let pods wait together, or by themselves, where that has changed."""
        if gang is None:
            return
        self.queue.note_change(ClassKey("", None, gang=gang.unit))
        changed = self.gangs.refresh(gang)
        for key in pods if not changed else ():
            self._move(key)
        for one in changed:
            for key in one.waiting():
                self._move(key)

    def _move(self, key: str) -> None:
        pod = self.queue.pods.get(key)
        if pod is None:
            return
        unit = self._gang_unit(key, self.profiles[pod.waiting.scheduler_name])
        if unit == pod.gang:
            return
        if pod.retry_at or self.queue.is_gated(key):
            pod.gang = unit  # it is in no queue of a class
        else:
            self.queue.set(replace(pod, gang=unit))
