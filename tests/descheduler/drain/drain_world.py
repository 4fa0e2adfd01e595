"""A cluster in which a node is drained, step by step, with all others that take part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from koord_descheduler.drain.drain_acts import (
    ClaimNode,
    DeletePod,
    DrainAct,
    DropPart,
    EvictPod,
    KeepFinalizer,
    MakeJob,
    MakeReservation,
    ReleaseNode,
    SetConditions,
)
from koord_descheduler.drain.drain_decision import decide
from koord_descheduler.drain.drain_document import OtherDrains, observe, status_document
from koord_descheduler.drain.drain_objects import (
    ANNOTATION_CLAIM,
    FINALIZER,
    read_job,
    read_node,
    read_reservation,
)
from koord_descheduler.drain.drain_view import DrainView
from koord_descheduler.drain.part_documents import job_document, reservation_document
from koord_descheduler.drain.pod_states import DrainParts
from koord_kube.protocol.resources import RESERVATIONS
from koord_model.times import from_rfc3339, rfc3339

from tests.descheduler.clusters import NOW, Document, TestCluster, node, pod

UID = "d0000000-uid"


class DrainWorld:
    """Node "a" is drained; "b" and "c" have room for 4 CPUs each."""

    def __init__(self, *, reserves: bool = True, cordoned: bool = False, **spec: Any) -> None:
        self.now = NOW
        self.reserves = reserves
        self.cluster = TestCluster()
        self.pods: dict[str, Document] = {}
        self.reservations: dict[str, Document] = {}
        self.jobs: dict[str, Document] = {}
        self.evicted: list[str] = []
        self.schedules = True
        self.failing: Callable[[str], bool] = lambda pod: False
        self.node: Document | None = None
        self.set_node(node("a", unschedulable=cordoned))
        self.cluster.put(node("b", cpu="4"), node("c", cpu="4"))
        self.drain: Document | None = {
            "metadata": {"name": "d", "uid": UID},
            "spec": {"nodeName": "a"} | spec,
        }

    # ---- what users and others do

    def set_node(self, document: Document | None) -> None:
        self.node = document
        if document is None:
            self.cluster.remove("Node", "a")
            return
        meta = document["metadata"]
        meta["resourceVersion"] = str(int(meta.get("resourceVersion", "0")) + 1)
        self.cluster.put(document)

    def cordon(self, value: bool) -> None:
        assert self.node is not None
        self.node["spec"]["unschedulable"] = value
        self.set_node(self.node)

    @property
    def is_cordoned(self) -> bool:
        return self.node is not None and bool(self.node["spec"].get("unschedulable"))

    def add_pod(self, name: str, on: str = "a", **more: Any) -> None:
        self.pods[name] = pod(name, on, **more)
        self.cluster.put(self.pods[name])

    def end_pod(self, name: str) -> None:
        del self.pods[name]
        self.cluster.remove("Pod", f"default/{name}")

    def ask(self, **spec: Any) -> None:
        if self.drain is not None:
            self.drain["spec"].update(spec)

    def delete(self) -> None:
        assert self.drain is not None
        self.drain["metadata"]["deletionTimestamp"] = rfc3339(self.now)
        if not self.drain["metadata"].get("finalizers"):
            self.drain = None

    def others(self) -> None:
        """The scheduler gives Reservations their nodes; jobs evict pods, whose next ones start."""
        for reservation in self.reservations.values() if self.schedules else ():
            term = reservation["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
            terms = term["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            target = terms[0]["matchFields"][-1]["values"][0]
            reservation.setdefault("status", {"phase": "Available", "nodeName": target})
        for job in self.jobs.values():
            self._run(job)

    def _run(self, job: Document) -> None:
        reference = job["spec"]["podRef"]
        name, status = reference["name"], job.setdefault("status", {})
        old = self.pods.get(name)
        if status or old is None or old["metadata"]["uid"] != reference["uid"]:
            return
        if self.failing(name):
            status.update(phase="Failed", reason="Timeout", message="no time")
            return
        self.evicted.append(name)
        self.end_pod(name)
        status["phase"] = "Succeeded"
        reserved = self.reservations.get(job["metadata"]["name"])
        if reserved is not None:
            reserved["status"]["phase"] = "Succeeded"
            self.add_pod(f"{name}-n", reserved["status"]["nodeName"])

    # ---- the controller

    def view(self) -> DrainView:
        assert self.drain is not None
        reservations = map(read_reservation, self.reservations.values())
        jobs = map(read_job, self.jobs.values())
        parts = DrainParts(
            UID, {each.name: each for each in reservations}, {each.name: each for each in jobs}
        )
        read = read_node(self.node) if self.node is not None else None
        others = OtherDrains(claimants=frozenset({UID}))
        return observe(
            self.drain, self.cluster.cluster, read, parts, others, self.now, reserves=self.reserves
        )

    def step(self, *, crash_after: int = 1000) -> str:
        """One step, or a part of it; returns the phase."""
        if self.drain is None:
            return ""
        view = self.view()
        decision = decide(view)
        self.drain["status"] = status_document(view, decision.status)
        for act in decision.acts[:crash_after]:
            self.perform(view, act)
        return decision.status.phase.value

    def settle(self, steps: int = 12) -> str:
        """The phase after some steps of all."""
        phase = ""
        for _ in range(steps):
            phase = self.step()
            self.others()
        return phase

    def perform(self, view: DrainView, act: DrainAct) -> None:
        match act:
            case ClaimNode(version, claim):
                assert self.node is not None
                assert version == self.node["metadata"]["resourceVersion"]
                self.node["metadata"]["annotations"] = {ANNOTATION_CLAIM: claim.text}
                self.cordon(True)
            case ReleaseNode(_, uncordon):
                assert self.node is not None
                del self.node["metadata"]["annotations"]
                self.cordon(self.is_cordoned and not uncordon)
            case KeepFinalizer(keep):
                assert self.drain is not None
                self.drain["metadata"]["finalizers"] = [FINALIZER] if keep else []
                if self.drain["metadata"].get("deletionTimestamp") and not keep:
                    self.drain = None
            case MakeReservation(name, state):
                assert state.pod.view.name in self.pods, "it is read from the API first"
                made = reservation_document(view, act, self.pods[state.pod.view.name])
                self._keep(self.reservations, name, made)
            case MakeJob(name, _):
                self._keep(self.jobs, name, job_document(view, act))
            case DropPart(resource, name, _):
                parts = self.reservations if resource == RESERVATIONS else self.jobs
                parts.pop(name, None)
            case DeletePod(state):
                self.end_pod(state.pod.view.name)
            case EvictPod(state):
                self.evicted.append(state.pod.view.name)
                self.end_pod(state.pod.view.name)
            case SetConditions(conditions):
                self._set_conditions(conditions)

    def _keep(self, parts: dict[str, Document], name: str, made: Document) -> None:
        made["metadata"] |= {"uid": f"uid-of-{name}", "creationTimestamp": rfc3339(self.now)}
        parts.setdefault(name, made)

    def _set_conditions(self, conditions: dict[str, bool]) -> None:
        assert self.node is not None
        known = {each["type"]: each for each in self.node["status"]["conditions"]}
        for name, holds in conditions.items():
            known[name] = {"type": name, "status": str(holds)}
        self.node["status"]["conditions"] = list(known.values())
        self.set_node(self.node)

    @property
    def conditions(self) -> dict[str, str]:
        assert self.node is not None
        found = {each["type"]: each["status"] for each in self.node["status"]["conditions"]}
        found.pop("Ready")
        return found

    @property
    def status(self) -> Document:
        assert self.drain is not None
        found: Document = self.drain["status"]
        return found

    def wait(self, seconds: float) -> None:
        self.now = from_rfc3339(rfc3339(self.now + seconds))
