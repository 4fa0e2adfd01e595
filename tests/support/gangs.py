"""A scheduler with nodes and gangs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Decision, Placement, Refusal
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.queue.scheduling_queue import SchedulingQueue
from koord_scheduler.framework.recording import Record, RecordingScheduler, recorded_kind
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.gangs.gang_spec import GangDefaults
from koord_scheduler.gangs.gangs import Gang
from koord_scheduler.plugins.coscheduling.plugin import Coscheduling
from koord_scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord_scheduler.state.cluster_state import ClusterState

PREFIX = "gang.scheduling.koordinator.sh"


def gang_annotations(name: str, minimum: int, **more: str) -> dict[str, str]:
    """Annotations of a gang's pods; those of ``more`` have "_" for "-"."""
    given = {"name": name, "min-available": str(minimum), **more}
    return {f"{PREFIX}/{key.replace('_', '-')}": value for key, value in given.items()}


class GangCluster:
    """Nodes, and pods in the namespace d, of which most are in gangs. ``now`` goes on by hand."""

    def __init__(
        self,
        *nodes: str,
        cpus: int = 4,
        preempts: bool = False,
        gangs_preempt: bool = False,
        gathers: bool = False,
        more: Sequence[EnabledPlugin] = (),
        profile: Profile | None = None,
        record: Record | None = None,
    ) -> None:
        defaults = GangDefaults(preempts=gangs_preempt)
        coscheduling = Coscheduling(defaults, gathers=gathers)
        plugins = (EnabledPlugin(NodeResourcesFit()), EnabledPlugin(coscheduling, weight=0), *more)
        usual = Profile("default-scheduler", plugins, preempts=preempts, gangs=defaults)
        profile = usual if profile is None else profile
        self.profiles = [profile]
        self.scheduler = Scheduler(self.profiles)
        if record is not None:
            columns, queue = ClusterState(), SchedulingQueue()
            self.scheduler = RecordingScheduler(self.profiles, record, nodes=columns, queue=queue)
        self.now = 0.0
        found = [*cluster_kinds(self.scheduler), pod_kind(self.scheduler, lambda: self.now)]
        if record is not None:
            found = [recorded_kind(one, record, lambda: self.now) for one in found]
        self._named = {one.name: one for one in found}
        self._kinds = {one.resource.kind: one for one in found}
        self.documents: dict[str, dict[str, Any]] = {}
        for name in nodes:
            self.node(name, cpus)

    def put(self, kind: str, key: str, document: Mapping[str, Any]) -> None:
        """An object is there."""
        self._kinds[kind].put(key, self._kinds[kind].read(json.dumps(document).encode()))

    def node(self, name: str, cpus: int = 4, **labels: str) -> None:
        """A node is there."""
        amounts = {"cpu": str(cpus), "memory": "64Gi", "pods": "110"}
        metadata = {"name": name, "labels": labels}
        document = {"metadata": metadata, "status": {"allocatable": amounts}}
        self.put("Node", name, document)

    def pod_group(self, name: str, minimum: int, **annotations: str) -> None:
        """A PodGroup is there."""
        more = {f"{PREFIX}/{key.replace('_', '-')}": one for key, one in annotations.items()}
        metadata = {"name": name, "namespace": "d", "uid": name, "annotations": more}
        self.put("PodGroup", f"d/{name}", {"metadata": metadata, "spec": {"minMember": minimum}})

    def scheduling_group(self, name: str, spec: Mapping[str, Any]) -> None:
        """A PodGroup of Kubernetes' own is there."""
        metadata = {"name": name, "namespace": "d", "uid": f"group-{name}"}
        document = {"metadata": metadata, "spec": spec}
        kind = self._named["PodGroup.scheduling.k8s.io"]
        kind.put(f"d/{name}", kind.read(json.dumps(document).encode()))

    def composite(self, name: str, spec: Mapping[str, Any]) -> None:
        """A CompositePodGroup is there."""
        document = {"metadata": {"name": name, "namespace": "d"}, "spec": spec}
        kind = self._named["CompositePodGroup.scheduling.k8s.io"]
        kind.put(f"d/{name}", kind.read(json.dumps(document).encode()))

    def remove_object(self, kind: str, name: str) -> None:
        """An object of a kind of Kubernetes' groups is gone."""
        self._named[kind].remove(f"d/{name}")

    def pod(
        self,
        name: str,
        annotations: Mapping[str, str] | None = None,
        *,
        cpus: int = 1,
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """A pod that waits, unless it has a ``nodeName``."""
        metadata = {"name": name, "namespace": "d", "uid": f"u-{name}"}
        container = {"name": "c", "resources": {"requests": {"cpu": str(cpus)}}}
        self.documents[f"d/{name}"] = {
            "metadata": {**metadata, "annotations": annotations or {}, "labels": labels or {}},
            "spec": {"containers": [container], **spec},
        }
        self.put("Pod", f"d/{name}", self.documents[f"d/{name}"])

    def gang(self, name: str, pods: int, minimum: int = 0, *, cpus: int = 1, **more: str) -> None:
        """Pods of a gang by annotations, NAME-0 and so on."""
        annotations = gang_annotations(name, minimum or pods, **more)
        for number in range(pods):
            self.pod(f"{name}-{number}", annotations, cpus=cpus)

    def bind(self, placement: Placement) -> None:
        """The API says that a pod has its node."""
        document = self.documents[placement.pod.key]
        document["spec"]["nodeName"] = placement.node
        if placement.release is not None:
            document["metadata"]["annotations"] = {
                **document["metadata"]["annotations"],
                **placement.release.annotations,
            }
        self.put("Pod", placement.pod.key, document)

    def remove(self, key: str) -> None:
        """A pod is gone."""
        self.documents.pop(key, None)
        self._kinds["Pod"].remove(key)

    def decisions(self, seconds: float = 0.0) -> Iterator[Decision]:
        """All that is decided after so many seconds."""
        self.now += seconds
        self.scheduler.tick(self.now)
        self.scheduler.wake(self.now)
        while (decision := self.scheduler.decide(self.now)) is not None:
            assert isinstance(decision, Decision)
            yield decision

    def placed(self, seconds: float = 0.0) -> list[str]:
        """The names of the pods that get nodes."""
        found = [one for one in self.decisions(seconds) if isinstance(one, Placement)]
        return [one.pod.key.partition("/")[2] for one in found]

    def refusals(self, seconds: float = 0.0) -> list[Refusal]:
        """Those who are informed that they get none."""
        return [
            one for one in self.decisions(seconds) if isinstance(one, Refusal) and one.unreported
        ]

    def of(self, name: str) -> Gang:
        """A gang."""
        return self.scheduler.gangs.by_key[f"d/{name}"]

    def requested(self) -> float:
        """The cores that all nodes have given away."""
        return float(self.scheduler.nodes.resources.requested[0].sum()) / 1000
