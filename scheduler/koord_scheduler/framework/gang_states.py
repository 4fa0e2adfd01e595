"""The members of gangs among the pods of the cluster. No IO."""

from __future__ import annotations

from dataclasses import replace

from koord_scheduler.classes.pod_reader import ClusterPod
from koord_scheduler.framework.pod_states import PodStates
from koord_scheduler.framework.profile import Profile
from koord_scheduler.framework.queue.scheduling_queue import ClassKey, GangAttempts, QueuedPod
from koord_scheduler.plugins.coscheduling.gangs import Gang, Gangs
from koord_scheduler.plugins.coscheduling.pod_group import PodGroup


class GangStates(PodStates):
    """Keeps count of gangs, and which of their waiting pods wait together, which by themselves."""

    @property
    def gangs(self) -> Gangs:
        """All gangs."""
        return self.nodes.gangs

    def set_pod(self, pod: ClusterPod, now: float) -> None:
        """A pod is there, or has changed."""
        before = self.gangs.gang_of(pod.key)
        if pod.gang is None or (pod.is_leaving and pod.waiting is not None):
            self.gangs.remove_member(pod.key)
        else:
            is_bound = pod.waiting is None
            self.gangs.set_member(pod.key, pod.uid, pod.gang, is_bound=is_bound)
        for gang in (before, self.gangs.gang_of(pod.key)):
            self._regroup(gang)
        super().set_pod(pod, now)
        if before is not None:
            self._move(pod.key)

    def remove_pod(self, key: str) -> None:
        """A pod is gone."""
        super().remove_pod(key)
        self._regroup(self.gangs.remove_member(key))

    def set_pod_group(self, one: PodGroup) -> None:
        """A PodGroup is there, or has changed."""
        self._try_anew(self.gangs.set_pod_group(one))

    def remove_pod_group(self, key: str) -> None:
        """A PodGroup is gone."""
        self._try_anew(self.gangs.remove_pod_group(key))

    def _try_anew(self, gang: Gang | None) -> None:
        """What a gang asks for has changed: what was found of its group counts no longer."""
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
