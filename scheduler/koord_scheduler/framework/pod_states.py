"""The pods of the cluster: which wait, which got a node, and which are there. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.nominations import Nomination, Nominations
from koord_scheduler.framework.profile import Profile
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod, SchedulingQueue
from koord_scheduler.objects.pod_times import PodTimes
from koord_scheduler.plugin import Plugin
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods
from koord_scheduler.state.pod_reader import ClusterPod, WaitingPod
from koord_scheduler.state.pod_usage import PlacedPod, PodUsage

HIGHEST_PRIORITY = 2**31 - 1
"""Of pods that nobody preempts."""


class PodStates:
    """Pods wait in the queue, are assumed on a node, and are placed once the API says so.

    An assumed pod is counted on its node; it waits again if it is forgotten. Times are monotonic
    seconds. ``profiles`` are by scheduler name; pods of others do not wait here.
    """

    def __init__(
        self, profiles: Mapping[str, Profile], nodes: ClusterState, queue: SchedulingQueue
    ) -> None:
        self.profiles = profiles
        self.nodes = nodes
        self.queue = queue
        self.nominations = Nominations()
        self._reserved: dict[str, list[tuple[Plugin, object]]] = {}
        self._assumed: dict[str, QueuedPod] = {}
        # What the API said of pods while they were assumed; it counts once they are forgotten.
        self._newer: dict[str, Callable[[float], None]] = {}
        self._number = 0
        self._labels_version = nodes.selected_labels.version
        if any(plugin.plugin.reads_labels for some in profiles.values() for plugin in some.plugins):
            nodes.selected_labels.add_all()
        for profile in profiles.values():
            for plugin in profile.plugins:
                plugin.plugin.prepare(nodes)
                plugin.plugin.join([other.plugin for other in profile.plugins])
        self.placed = PlacedPods(nodes)
        nodes.stand_ins = self
        self._hearing, self._binding = nodes.hooks("set_pod"), nodes.hooks("bound")
        self._forgetting, self._giving_up = nodes.hooks("remove_pod"), nodes.hooks("gave_up")
        self._reclassifying = nodes.hooks("reclassified")
        self.assumed: Mapping[str, QueuedPod] = MappingProxyType(self._assumed)

    def set_pod(self, pod: ClusterPod, now: float) -> None:
        """A pod is there, or has changed."""
        for hear in self._hearing:
            hear(pod)
        if pod.waiting is None:
            self._settle(pod.key)
            self.queue.remove(pod.key)
            self.nominations.remove(pod.key)
            self.placed.set(_placed(pod))
            for bound in self._binding:
                bound(pod)
            self._reclassify()
            return
        assumed = self._assumed.get(pod.key)
        if assumed is not None and assumed.uid == pod.uid:
            # Where it goes is on its way to the API.
            self._newer[pod.key] = partial(self.set_pod, pod)
            placed = self.placed.by_key[pod.key]
            usage = self._usage_of(pod.key, pod.waiting)
            if usage != placed.usage:  # its labels count for others from now on
                self.placed.set(placed._replace(usage=usage))
            return
        if pod.key in self.placed.by_key:
            self._unplace(pod.key)
        self._wait(pod, pod.waiting, now)

    def remove_pod(self, key: str) -> None:
        """A pod is gone."""
        self._drop(key)
        for forget in self._forgetting:
            forget(key)

    def _drop(self, key: str) -> None:
        """Nothing is decided about a pod, or kept for it."""
        self.queue.remove(key)
        self.nominations.remove(key)
        if key in self.placed.by_key:
            self._unplace(key)

    def set_stand_in(
        self, pod: ClusterPod, changed: Callable[[], object], now: float, *, is_pending: bool
    ) -> None:
        """An object is there, or has changed, that waits as ``pod`` if it ``is_pending``."""
        assumed = self._assumed.get(pod.key)
        if is_pending and assumed is not None and assumed.uid == pod.uid:
            self._newer[pod.key] = partial(self.set_stand_in, pod, changed, is_pending=is_pending)
            return
        self._settle(pod.key)
        if pod.key in self.placed.by_key:
            self.placed.remove(pod.key)
        changed()
        if is_pending and pod.waiting is not None:
            self._wait(pod, pod.waiting, now)
        else:
            self.queue.remove(pod.key)
            self.nominations.remove(pod.key)
        self._reclassify()

    def remove_stand_in(self, key: str, changed: Callable[[], object]) -> None:
        """It is gone."""
        self.remove_pod(key)
        changed()
        self._reclassify()

    def _reclassify(self) -> None:
        """Pods wait apart from their like whose class is another one by now."""
        for reclassified in self._reclassifying:
            for key in reclassified(self.queue.pods):
                pod = self.queue.pods[key]
                waiting = self._with_class(pod.key, pod.uid, pod.waiting)
                if waiting is not pod.waiting:
                    honors = self.profiles[waiting.scheduler_name].honors_gates
                    again = replace(pod, waiting=waiting, retry_at=0.0)
                    self.queue.set(again, is_gated=honors and bool(waiting.gates))

    def separate_selected(self) -> None:
        """Pods that differ in labels by which somebody selects by now wait apart."""
        version = self.nodes.selected_labels.version
        if self._labels_version != version:
            self._labels_version = version
            for pod in tuple(self.queue.pods.values()):
                waiting = self._with_class(pod.key, pod.uid, pod.waiting)
                if waiting is not pod.waiting:
                    self.queue.move(pod, waiting)

    def _with_class(self, key: str, uid: str, waiting: WaitingPod) -> WaitingPod:
        """A pod with its class as it is by now."""
        if waiting.stands_for is not None:
            return waiting
        made, labels = waiting.pod_class, self.nodes.selected_labels.of(waiting.usage.labels)
        if made.labels != labels:
            made = replace(made, labels=labels)
        made = self.nodes.class_of(made, key, uid)
        return waiting if made is waiting.pod_class else waiting._replace(pod_class=made)

    def _wait(self, pod: ClusterPod, waiting: WaitingPod, now: float) -> None:
        profile = self.profiles.get(waiting.scheduler_name)
        known = self.queue.pods.get(pod.key)
        if profile is None or pod.is_leaving:
            self._drop(pod.key)
            return
        waiting = self._with_class(pod.key, pod.uid, waiting)
        if known is not None and known.uid == pod.uid:
            self._update(known, pod, waiting)
            return
        self.nominations.remove(pod.key)
        self._number += 1
        made = QueuedPod(
            pod.key,
            pod.uid,
            pod.priority,
            waiting,
            self._number,
            now,
            reported=waiting.condition,
            is_nominated=bool(waiting.nominated),
            gang=self._gang_unit(pod.key, profile),
        )
        if waiting.nominated:
            self.nominate(made, waiting.nominated)
        self.queue.set(made, is_gated=profile.honors_gates and bool(waiting.gates))

    def _update(self, known: QueuedPod, pod: ClusterPod, waiting: WaitingPod) -> None:
        """Most changes are of its condition, which this program wrote itself."""
        before = known.waiting
        again = self._follow_nomination(known, waiting.nominated)
        if (
            again is known
            and known.priority == pod.priority
            and before.pod_class == waiting.pod_class
            and before[2:6] == waiting[2:6]
        ):
            known.waiting = waiting
            return
        again = replace(again, priority=pod.priority, waiting=waiting, retry_at=0.0, attempts=0)
        honors = self.profiles[waiting.scheduler_name].honors_gates
        self.queue.set(again, is_gated=honors and bool(waiting.gates))

    def _follow_nomination(self, pod: QueuedPod, node: str) -> QueuedPod:
        """Follow a change of the pod's nomination by the API."""
        before = pod.waiting.nominated
        nomination = self.nominations.get(pod.key)
        known = nomination.node if nomination is not None else ""
        if node in (before, known) or (not node and known != before):
            return pod  # this program said so itself, or says something newer
        return self.nominate(pod, node or None)

    def nominate(self, pod: QueuedPod, node: str | None) -> QueuedPod:
        """Keep room for a waiting pod on a node; ``None``: nowhere. Returns it as it waits now."""
        if node is None:
            self.nominations.remove(pod.key)
        else:
            nomination = Nomination(pod.key, node, pod.priority, pod.waiting.usage)
            self.nominations.set(nomination)
        is_nominated = node is not None
        if pod.is_nominated == is_nominated:
            return pod
        again = replace(pod, is_nominated=is_nominated)
        if pod.in_queue and not pod.retry_at:
            self.queue.set(again, is_gated=self.queue.is_gated(pod.key))
        return again

    def _gang_unit(self, key: str, profile: Profile) -> str:
        """The gang group that a pod of a profile starts with; "" if it goes by itself."""
        return ""

    def tick(self, now: float, epoch: float = 0.0) -> float | None:
        """Let pods come whose back-off has ended; returns when the next one's does.

        ``epoch`` is the same time in seconds since the epoch.
        """
        self.separate_selected()
        self.nodes.set_epoch(epoch)
        return self.queue.tick(now)

    def assume(self, pod: QueuedPod, row: int) -> Placement:
        """A waiting pod is to get a row's node."""
        placement = self.place(pod, row)
        self.confirm(pod)
        return placement

    def confirm(self, pod: QueuedPod) -> None:
        """A pod that was placed is to be bound; it does not wait any more."""
        self.queue.remove(pod.key)
        self.nominations.remove(pod.key)  # it has that room now, or another
        self._assumed[pod.key] = pod

    def place(self, pod: QueuedPod, row: int) -> Placement:
        """A waiting pod takes its room on a row's node; plugins reserve what else it needs."""
        node, waiting = self.nodes.name(row), pod.waiting
        reserved = self._reserve(waiting, row)
        if reserved:
            self._reserved[pod.key] = reserved
        usage = self._usage_of(pod.key, waiting) if reserved else waiting.usage
        times = PodTimes(self.nodes.epoch)
        # What is no pod is no victim: nothing could be evicted.
        priority = pod.priority if waiting.stands_for is None else HIGHEST_PRIORITY
        self.placed.set(PlacedPod(pod.key, pod.uid, node, priority, None, usage, times=times))
        return Placement(pod, node, tuple([taken for _, taken in reserved]))

    def _usage_of(self, key: str, waiting: WaitingPod) -> PodUsage:
        """Return a placed pod's usage of its node, with what plugins took for it."""
        usage = waiting.usage
        for plugin, taken in self._reserved.get(key, ()):
            usage = plugin.usage(taken, usage)
        return usage

    def take_back(self, pod: QueuedPod) -> None:
        """A pod gives back what it took, and waits as before."""
        self._unplace(pod.key)

    def forget(self, pod: QueuedPod, now: float) -> None:
        """A pod did not get the node that it was given; its turn comes again."""
        if self._assumed.get(pod.key) is not pod:
            return  # the API said meanwhile what became of it
        if pod.is_nominated:
            node, usage = self.placed.by_key[pod.key].node, pod.waiting.usage
            self.nominations.set(Nomination(pod.key, node, pod.priority, usage))
        newer = self._newer.get(pod.key)
        self._unplace(pod.key)
        waiting = self._with_class(pod.key, pod.uid, pod.waiting)
        self.queue.back_off(replace(pod, waiting=waiting), now)
        if newer is not None:
            newer(now)

    def forget_all(self, now: float) -> None:
        """Forget all that was not confirmed yet: another scheduler decides from now on."""
        for pod in tuple(self._assumed.values()):
            self.forget(pod, now)

    def _reserve(self, waiting: WaitingPod, row: int) -> list[tuple[Plugin, object]]:
        """Reserve with all plugins; nothing is reserved if one of them fails."""
        reserved: list[tuple[Plugin, object]] = []
        try:
            for plugin in self.profiles[waiting.scheduler_name].reserving:
                if waiting.stands_for is not None and not plugin.serves_stand_ins:
                    continue
                taken = plugin.reserve(waiting.pod_class, self.nodes, row)
                if taken is not None:
                    reserved.append((plugin, taken))
        except Exception:
            for plugin, taken in reserved:
                plugin.unreserve(taken, self.nodes)
            raise
        return reserved

    def _settle(self, key: str) -> None:
        """The API says what became of a pod."""
        self._assumed.pop(key, None)
        self._reserved.pop(key, None)
        self._newer.pop(key, None)

    def _unplace(self, key: str) -> None:
        self._assumed.pop(key, None)
        self._newer.pop(key, None)
        for plugin, taken in self._reserved.pop(key, ()):
            plugin.unreserve(taken, self.nodes)
        for gave_up in self._giving_up:
            gave_up(key)
        self.placed.remove(key)


def _placed(pod: ClusterPod) -> PlacedPod:
    started, is_preempted = pod.started, pod.is_preempted
    node, usage, times = pod.node, pod.usage, pod.times
    return PlacedPod(pod.key, pod.uid, node, pod.priority, started, usage, is_preempted, times)
