"""The pods and containers that run here, from whoever knows: no IO.

The kubelet's list, where there is one, has the last word. An event of a hook call
or NRI counts at once, and until a list that was requested later says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from koord_model.demand import Demand as Demand
from koord_model.pod import Container, Pod


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod that runs, with its containers by id.

    ``runtime`` is how container ids are prefixed in cgroup names; ``pod.cgroup_parent``
    is set. ``demand`` is known of pods in the kubelet's list; ``None`` of others.
    """

    pod: Pod
    containers: Mapping[str, Container] = field(default_factory=dict)
    runtime: str = "containerd"
    demand: Demand | None = None


class PodInventory:
    """What runs, by pod UID."""

    def __init__(self) -> None:
        self._records: dict[str, PodRecord] = {}
        self._reported_at: dict[str, float] = {}

    def records(self) -> tuple[PodRecord, ...]:
        """Every pod known."""
        return tuple(self._records.values())

    def get(self, uid: str) -> PodRecord | None:
        """One pod, or ``None``."""
        return self._records.get(uid)

    def current(self, container: Container) -> Container:
        """The container with its pod's labels and annotations as they are now.

        A proxy, and a runtime over NRI, repeat those that the sandbox was started with. They can
        be changed since: that is how a batch pod is resized.
        """
        record = self._records.get(container.pod.uid)
        if record is None:
            return container
        pod = replace(container.pod, labels=record.pod.labels, annotations=record.pod.annotations)
        return replace(container, pod=pod)

    def replace(self, listed: Iterable[PodRecord], asked_at: float) -> None:
        """Take over a list that was asked for at ``asked_at`` (any steady clock's seconds).

        Pods that were reported since then stay. A record that says the same as before stays the
        same object, so that nothing is computed anew for it.
        """
        kept = {uid: self._records[uid] for uid, at in self._reported_at.items() if at >= asked_at}
        self._reported_at = {uid: self._reported_at[uid] for uid in kept}
        records: dict[str, PodRecord] = {}
        for record in listed:
            before = self._records.get(record.pod.uid)
            records[record.pod.uid] = before if before == record else record
        self._records = records | kept

    def recall(self, records: Iterable[PodRecord], now: float) -> None:
        """Add pods that were known before a restart; later events override them."""
        for record in records:
            self._report(record, now)

    def saw_pod(self, pod: Pod, now: float, runtime: str = "containerd") -> PodRecord:
        """A pod that is being started, or whose labels and annotations have changed."""
        before = self._records.get(pod.uid)
        if before is not None:
            return self._report(replace(before, pod=pod, runtime=runtime), now)
        return self._report(PodRecord(pod, {}, runtime), now)

    def saw_container(
        self, container: Container, now: float, runtime: str = "containerd"
    ) -> PodRecord:
        """A container that runs; a pod not known yet is taken from it."""
        before = self._records.get(container.pod.uid)
        if before is None:
            before = PodRecord(container.pod, {}, runtime)
        containers = {**before.containers, container.id: replace(container, pod=before.pod)}
        return self._report(replace(before, containers=containers), now)

    def lost_container(self, uid: str, container_id: str, now: float) -> None:
        """A container that has ended."""
        before = self._records.get(uid)
        if before is not None and container_id in before.containers:
            left = {key: one for key, one in before.containers.items() if key != container_id}
            self._report(replace(before, containers=left), now)

    def lost_pod(self, uid: str) -> None:
        """A pod that has ended."""
        self._records.pop(uid, None)
        self._reported_at.pop(uid, None)

    def age(self, record: PodRecord, now: float) -> float:
        """Seconds since the last event of this pod."""
        return now - self._reported_at.get(record.pod.uid, float("-inf"))

    def _report(self, record: PodRecord, now: float) -> PodRecord:
        uid = record.pod.uid
        self._reported_at[uid] = now
        if self._records.get(uid) != record:
            self._records[uid] = record
        return self._records[uid]
