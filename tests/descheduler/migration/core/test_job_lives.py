"""Jobs live through random changes, answers and crashes: rules hold whatever happens."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from koord_descheduler.migration.core.documents import begin_patch
from koord_descheduler.migration.core.documents import (
    reservation_document as make_reservation,
)
from koord_descheduler.migration.core.job import (
    ANNOTATION_PASSED,
    JobOrigin,
    MigrationJob,
    PodReference,
    read_migration_job,
)
from koord_descheduler.migration.core.job_reservation import (
    NO_RESERVATION,
    read_job_reservation,
)
from koord_descheduler.migration.core.situation import JobSituation
from koord_descheduler.migration.core.state_machine import next_step
from koord_descheduler.migration.core.step import JobAction, JobStep
from koord_descheduler.objects.observed_pod import ObservedPod, ObservedPodReader

from tests.descheduler.clusters import NOW, pod
from tests.descheduler.migration.jobs import job_document, reservation_status
from tests.support.merge_patch import merged

Document = dict[str, Any]
NAMES = st.sampled_from(["p", "q"])
OVER = ("Succeeded", "Failed", "Aborted")


class JobLives(RuleBasedStateMachine):
    """An API server with two names of pods, jobs about them and their Reservations.

    Steps are taken from what was known at the last ``watch``; changes need the newest version.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now, self.number = NOW, 0
        self.pods: dict[str, Document] = {}
        self.jobs: dict[str, Document] = {}
        self.reservations: dict[str, Document] = {}
        self.known: dict[str, Document] = {}
        self.passed: dict[str, str] = {}
        """Jobs that arbitration let begin, with the UIDs of their pods."""
        self.evicted: list[str] = []
        self.ends: dict[str, Document] = {}
        for name in ("p", "q"):
            self.start_pod(name)

    def next_number(self) -> str:
        self.number += 1
        return str(self.number)

    def change(self, of: str, patch: Document) -> None:
        self.jobs[of] = merged(self.jobs[of], patch)
        self.jobs[of]["metadata"]["resourceVersion"] = self.next_number()

    @initialize(name=NAMES, direct=st.booleans(), steps=st.integers(0, 8), arbitrates=st.booleans())
    def begin(self, name: str, direct: bool, steps: int, arbitrates: bool) -> None:
        """A job, whose user has marked it as if it had passed its arbitration."""
        self.make_job(name, direct, by_hand=False)
        for job in self.jobs:
            self.change(job, {"metadata": {"annotations": {ANNOTATION_PASSED: "true"}}})
        self.go_on(1 + steps, arbitrates=arbitrates)

    @rule(data=st.data(), what=st.integers(0, 6), steps=st.integers(0, 3), stale=st.booleans())
    def live(self, data: st.DataObject, what: int, steps: int, stale: bool) -> None:
        """One change from elsewhere, and some steps; the first from what was known before."""
        name = data.draw(NAMES)
        if what == 0:
            self.make_job(name, data.draw(st.booleans()), data.draw(st.booleans()))
        elif what == 1 and self.jobs:
            self.update_job(data, data.draw(st.integers(0, 4)))
        elif what == 2 and self.jobs:
            self.delete_job(data)
        elif what == 3:
            self.start_pod(name)
        elif what == 4:
            self.end_pod(name)
        elif what == 5 and self.reservations:
            self.change_reservation(data, data.draw(st.integers(0, 5)))
        elif what == 6:
            self.now += data.draw(st.sampled_from([1, 100, 300]))
        answer = data.draw(st.sampled_from(["ok", "ok", "refused"]))
        if stale:
            self.take_stale_steps(answer)
        self.go_on(steps, answer, arbitrates=data.draw(st.booleans()))

    def go_on(self, steps: int, answer: str = "ok", *, arbitrates: bool = True) -> None:
        for _ in range(steps):
            self.watch()
            if arbitrates:
                self.arbitrate()
            self.take_stale_steps(answer)

    # ---- what users and others do

    def make_job(self, name: str, direct: bool, by_hand: bool) -> None:
        number = self.next_number()
        ref = {"namespace": "default", "name": name}
        if not by_hand:
            ref["uid"] = self.pods[name]["metadata"]["uid"] if name in self.pods else "gone"
        mode = "EvictDirectly" if direct else ""
        made = job_document(f"j{number}", ref=ref, phase="", ago=NOW - self.now, mode=mode)
        self.jobs[f"j{number}"] = made

    def update_job(self, data: st.DataObject, what: int) -> None:
        job = data.draw(st.sampled_from(sorted(self.jobs)))
        changes: list[Document] = [
            {"metadata": {"annotations": {ANNOTATION_PASSED: "true"}}},
            {"metadata": {"labels": {"a": self.next_number()}}},
            {"metadata": {"annotations": {"descheduler.koordinator.sh/origin": "nonsense"}}},
            {"spec": {"paused": True}},
            {"spec": {"paused": False}},
        ]
        self.change(job, changes[what])

    def delete_job(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.jobs)))
        del self.jobs[job]
        self.ends.pop(job, None)

    def start_pod(self, name: str) -> None:
        if name not in self.pods:
            self.pods[name] = pod(name, "a", uid=f"uid-{self.next_number()}")

    def end_pod(self, name: str) -> None:
        self.pods.pop(name, None)

    def change_reservation(self, data: st.DataObject, what: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.reservations)))
        if what == 0:
            del self.reservations[name]
            return
        taken = [
            {"namespace": "default", "name": key, "uid": found["metadata"]["uid"]}
            for key, found in self.pods.items()
        ]
        self.reservations[name]["status"] = [
            reservation_status("Available", "b"),
            reservation_status("Available", "a"),
            reservation_status("Pending", why="no node"),
            reservation_status("Failed", why="Expired"),
            reservation_status("Succeeded", "b", taken[:1]),
        ][what - 1]

    # ---- what the descheduler does

    def watch(self) -> None:
        self.known = copy.deepcopy(self.jobs)

    def read(self, name: str) -> MigrationJob | None:
        found = self.known.get(name)
        return None if found is None else read_migration_job(json.dumps(found).encode())

    def is_newest(self, job: MigrationJob) -> bool:
        found = self.jobs.get(job.name)
        return found is not None and found["metadata"]["resourceVersion"] == job.version

    def arbitrate(self) -> None:
        for name in sorted(self.known):
            job = self.read(name)
            view = self.view(job.pod) if job is not None else None
            if job is None or view is None or not job.is_waiting or not self.is_newest(job):
                continue
            if job.pod.uid in ("", view.uid):
                origin = JobOrigin(view.node, view.owner)
                self.change(job.name, begin_patch(job, view.uid, origin))
                self.change(job.name, {"status": {"phase": "Running"}})
                self.passed[job.name] = view.uid

    def view(self, of: PodReference) -> ObservedPod | None:
        found = self.pods.get(of.name)
        return None if found is None else ObservedPodReader().read(json.dumps(found).encode())

    def situation(self, job: MigrationJob) -> JobSituation:
        names = [job.reservation, job.uid]
        found = next((self.reservations[one] for one in names if one in self.reservations), None)
        held = (
            read_job_reservation(json.dumps(found).encode())
            if found is not None
            else NO_RESERVATION
        )
        situation = JobSituation(job, self.now, self.view(job.pod), held)
        successor = job.new_pod or situation.successor
        new = self.view(successor) if successor is not None else None
        if new is not None and successor is not None and new.uid != successor.uid:
            new = None
        return JobSituation(job, self.now, self.view(job.pod), held, new)

    def take_stale_steps(self, answer: str) -> None:
        for name in sorted(self.known):
            if (job := self.read(name)) is not None:
                situation = self.situation(job)
                self.carry_out(situation, next_step(situation), answer)

    def carry_out(self, situation: JobSituation, step: JobStep, answer: str) -> None:
        job = situation.job
        if step.action is JobAction.EVICT:
            self.evict(job, answer)
        elif step.action is JobAction.FREE:
            self.reservations.pop(situation.reservation.name, None)
        elif step.action is JobAction.RESERVE and job.pod.name in self.pods:
            made = make_reservation(job, self.pods[job.pod.name], self.now)
            self.reservations[job.uid] = made | {"status": {}}
        elif step.action is JobAction.LINK and self.is_newest(job):
            reference = {"reservationRef": {"name": situation.reservation.name}}
            self.change(job.name, {"spec": {"reservationOptions": reference}})
        elif step.status and self.is_newest(job) and answer != "refused":
            self.change(job.name, {"status": dict(step.status)})

    def evict(self, job: MigrationJob, answer: str) -> None:
        """The API server's part: a UID that is another one's is a conflict."""
        assert self.passed.get(job.name) == job.pod.uid, "no update bypasses arbitration"
        found = self.pods.get(job.pod.name)
        if answer == "refused" or found is None or found["metadata"]["uid"] != job.pod.uid:
            return
        if "deletionTimestamp" not in found["metadata"]:
            self.evicted.append(job.pod.uid)
            found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    # ---- what always holds

    @invariant()
    def no_pod_is_evicted_twice(self) -> None:
        assert len(self.evicted) == len(set(self.evicted))
        assert set(self.evicted) <= set(self.passed.values())

    @invariant()
    def nothing_is_reserved_before_arbitration(self) -> None:
        uids = {f"uid-{name}" for name in self.passed}
        assert set(self.reservations) <= uids

    @invariant()
    def what_is_over_stays_so(self) -> None:
        for name, job in self.jobs.items():
            if job["status"].get("phase") in OVER:
                known = self.ends.setdefault(name, copy.deepcopy(job["status"]))
                assert job["status"] == known

    def teardown(self) -> None:
        """After a restart, and without more changes, all jobs end, and leave nothing reserved."""
        for job in self.jobs:
            self.change(job, {"spec": {"paused": False}})
        self.now += 1800
        self.go_on(12)
        for name, document in self.jobs.items():
            assert document["status"]["phase"] in OVER
            if document["status"]["phase"] == "Failed":
                assert f"uid-{name}" not in self.reservations
        self.what_is_over_stays_so()


TestJobLives = JobLives.TestCase
TestJobLives.settings = settings(stateful_step_count=20)
