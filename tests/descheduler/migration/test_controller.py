"""Jobs from their making to their end, against the double of the API server."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from koord_descheduler.migration import job_evictor
from koord_descheduler.migration.core.job import ANNOTATION_MOVE_SET
from koord_descheduler.migration.core.soft_eviction import ANNOTATION_SOFT_EVICTION, notice_author
from koord_descheduler.planner.move import Move
from koord_descheduler.planner.workloads import Replicas
from koord_kube.core.evictions import EvictionResult
from koord_kube.protocol.resources import (
    POD_MIGRATION_JOBS,
    PODS,
    PRIORITY_CLASSES,
    RESERVATIONS,
)

from tests.descheduler.migration.bench import MigrationBench
from tests.descheduler.migration.jobs import reservation_document, view

DIRECT = {"mode": "EvictDirectly"}
STATEFUL = [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db",
             "controller": True}]  # fmt: skip


async def test_a_pod_leaves_once_there_is_a_place(bench: MigrationBench) -> None:
    bench.start_pod("p", "a")
    controller = await bench.start()
    move = Move(
        bench.cluster.pods["default/p"].view, "b", "koord-descheduler", "LowNodeLoad", "hot"
    )
    assert (await controller.execute(move)).end is EvictionResult.EVICTED
    await bench.until(lambda: bool(controller.jobs))
    ((name, job),) = controller.jobs.items()
    await bench.until(lambda: bench.reservation(job.uid) is not None)
    ((under_way),) = controller.under_way()
    assert (under_way.pod.uid, under_way.target, under_way.reason) == ("uid-p", "b", "hot")
    assert bench.has_pod("p")
    await bench.reserve(job.uid)
    await bench.replace(reservation=job.uid)
    status = await bench.until_phase("Succeeded", name)
    assert (status["status"], status["nodeName"]) == ("Complete", "b")
    assert status["podRef"] == {"namespace": "default", "name": "q", "uid": "uid-q"}
    assert {found["type"]: found["status"] for found in status["conditions"]} == {
        "ReservationCreated": "True",
        "ReservationScheduled": "True",
        "Eviction": "True",
        "ReservationBound": "True",
        "PodBoundReservation": "True",
        "BoundPodReady": "True",
    }
    await bench.until(lambda: not list(controller.under_way()))
    expected = {
        "PodMigrationJob ReservationCreated",
        "PodMigrationJob ReservationScheduled",
        "PodMigrationJob Evicting",
        "Pod Descheduled",
        "PodMigrationJob EvictComplete",
        "PodMigrationJob PodBoundReservation",
        "PodMigrationJob Complete",
    }
    await bench.until(lambda: expected <= set(bench.events()))
    assert bench.warned == []


async def test_a_pod_is_evicted_directly(bench: MigrationBench) -> None:
    bench.start_pod()
    await bench.start()
    bench.put_job(**DIRECT)
    status = await bench.until_phase("Succeeded")
    assert status["message"] == 'Pod "default/p" has been evicted'
    assert bench.job()["metadata"]["annotations"]["descheduler.koordinator.sh/passed-arbitration"]
    assert len(bench.evictions()) == 1


class TestArbitration:
    async def test_no_update_of_a_waiting_job_bypasses_it(self, bench: MigrationBench) -> None:
        """Defect 1: any update of a waiting job let it begin."""
        bench.start_pod()
        bench.replicas = 1
        await bench.start(skipEvictionGates=["ExpectedReplicas"])
        bench.know(Replicas())
        bench.put_job(**DIRECT)
        await bench.until_phase("Pending")
        annotations = {"descheduler.koordinator.sh/passed-arbitration": "true"}
        changed = bench.job()
        changed["metadata"] |= {"annotations": annotations, "labels": {"a": "b"}}
        bench.api.put(POD_MIGRATION_JOBS, changed)
        await bench.rest()
        assert bench.status()["phase"] == "Pending"
        assert bench.status()["message"].endswith("are not known yet")
        assert not bench.evictions()
        bench.know(Replicas(4))
        await bench.until_phase("Succeeded")

    async def test_what_never_will_fails_with_its_reason(self, bench: MigrationBench) -> None:
        bench.start_pod(owner=None)
        await bench.start()
        bench.put_job()
        status = await bench.until_phase("Failed")
        assert status["reason"] == "ForbiddenMigratePod"
        assert "requirements: it has no owner" in status["message"]

    async def test_a_deleted_job_waits_no_more(self, bench: MigrationBench) -> None:
        """Defect 2."""
        bench.start_pod()
        await bench.start(maxMigratingGlobally=1)
        bench.know(Replicas())
        bench.put_job()
        await bench.until_phase("Pending")
        bench.api.delete(POD_MIGRATION_JOBS, "j")
        await bench.rest()
        before = len(bench.api.asked)
        await bench.rest()
        assert len(bench.api.asked) == before
        assert bench.warned == []

    async def test_a_waiting_job_times_out(self, bench: MigrationBench) -> None:
        """Defect 2: the scavenger just deleted it."""
        bench.start_pod()
        await bench.start()
        bench.know(Replicas())
        bench.put_job(ttl="1s")
        assert (await bench.until_phase("Failed"))["reason"] == "Timeout"

    async def test_a_named_priority_is_looked_up(self, bench: MigrationBench) -> None:
        bench.api.put(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 10})
        bench.start_pod("p", spec={"priority": 10})
        await bench.start(priorityThreshold={"name": "high"})
        bench.put_job()
        status = await bench.until_phase("Failed")
        assert "its priority 10 is not below priorityThreshold 10" in status["message"]


class TestRestart:
    async def test_terminal_jobs_stay_as_they_are(self, bench: MigrationBench) -> None:
        """Defect 3: a Succeeded job whose pod's name lives turned Failed."""
        bench.start_pod(owner=None)
        bench.put_job("done", phase="Succeeded")
        bench.put_job("failed", phase="Failed")
        before = bench.job("done"), bench.job("failed")
        await bench.start()
        await bench.rest()
        assert (bench.job("done"), bench.job("failed")) == before

    async def test_jobs_go_on(self, bench: MigrationBench) -> None:
        bench.start_pod()
        await bench.start()
        bench.put_job()
        await bench.until(lambda: bench.reservation() is not None)
        await bench.stop()
        await bench.reserve()
        await bench.start()
        await bench.replace()
        await bench.until_phase("Succeeded")

    async def test_limits_are_remembered(self, bench: MigrationBench) -> None:
        for name in ("p", "q"):
            bench.start_pod(name)
        await bench.start()
        bench.put_job(**DIRECT)
        await bench.until_phase("Succeeded")
        await bench.stop()
        controller = await bench.start()
        bench.put_job("k", "q", **DIRECT)
        await bench.until_phase("Running", "k")
        await bench.rest()
        assert len(bench.evictions()) == 1
        move = Move(bench.cluster.pods["default/q"].view, "b", "d", "LowNodeLoad", "hot")
        outcome = await controller.execute(move)
        assert outcome.end is EvictionResult.REFUSED
        assert outcome.reason.startswith("objectLimiters allow")

    async def test_jobs_of_others_are_theirs(self, bench: MigrationBench) -> None:
        bench.start_pod()
        controller = await bench.start()
        bench.put_job(annotations={"koordinator.sh/job-created-by": "another"}, **DIRECT)
        await bench.rest()
        assert not bench.status()
        assert not list(controller.under_way())


class TestEviction:
    async def test_stateful_sets_of_two_replicas_move(self, bench: MigrationBench) -> None:
        """Defect 4: the job's own token held it after the eviction."""
        bench.replicas = 2
        bench.start_pod("db-0", ownerReferences=STATEFUL)
        bench.start_pod("db-1", "b", ownerReferences=STATEFUL)
        await bench.start(skipEvictionGates=["ExpectedReplicas"])
        name = bench.cluster.pods["default/db-0"].view.template.workload
        assert name is not None
        bench.cluster.workloads.learn(name, Replicas(2), 0.0)
        bench.put_job("j", "db-0")
        await bench.reserve()
        await bench.until(lambda: not bench.has_pod("db-0"))
        bench.start_pod("db-0", "b", ownerReferences=STATEFUL, uid="uid-new")
        owner = {"namespace": "default", "name": "db-0", "uid": "uid-new"}
        await bench.reserve(phase="Succeeded", node="b", taken_by=[owner])
        status = await bench.until_phase("Succeeded")
        assert status["podRef"]["uid"] == "uid-new"
        assert len(bench.evictions()) == 1

    async def test_another_pod_of_the_name_is_never_evicted(self, bench: MigrationBench) -> None:
        """Defect 5: the UID was overwritten, and no precondition sent."""
        bench.start_pod(uid="uid-of-another")
        await bench.start()
        bench.put_job(**DIRECT)
        status = await bench.until_phase("Failed")
        assert (status["reason"], bench.evictions()) == ("MissingPod", [])
        assert bench.job()["spec"]["podRef"]["uid"] == "uid-p"

    async def test_a_job_by_hand_gets_the_uid_of_its_pod(self, bench: MigrationBench) -> None:
        bench.start_pod()
        await bench.start()
        bench.put_job(ref={"namespace": "default", "name": "p"}, **DIRECT)
        await bench.until_phase("Succeeded")
        assert bench.job()["spec"]["podRef"]["uid"] == "uid-p"
        (sent,) = [one for one in bench.api.asked if one.path.endswith("/eviction")]
        assert sent.body["deleteOptions"]["preconditions"] == {"uid": "uid-p"}

    async def test_a_refusal_is_waited_for(
        self, bench: MigrationBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Defect 6: 429 was an error, with waits past the ttl."""
        monkeypatch.setattr(job_evictor, "_REFUSED_SECONDS", 0.05)
        bench.start_pod()
        await bench.start()
        bench.put_job()
        await bench.reserve(phase="Pending")
        bench.put_budget(0)
        await bench.reserve()
        await bench.until(lambda: "disruption budget" in bench.status().get("message", ""))
        await bench.until(lambda: len(bench.evictions()) > 2)
        assert bench.status()["reason"] == "Evicting"
        bench.put_budget(1)
        await bench.replace()
        await bench.until_phase("Succeeded")
        assert bench.warned == []

    async def test_a_budget_that_is_spent_keeps_the_job_waiting(
        self, bench: MigrationBench
    ) -> None:
        """It is looked at before anything is sent."""
        bench.put_budget(0)
        bench.start_pod()
        await bench.start()
        bench.put_job(**DIRECT)
        status = await bench.until_phase("Pending")
        assert status["message"] == "PodDisruptionBudget pdb allows no disruption now"
        bench.put_budget(1)
        await bench.until_phase("Succeeded")

    async def test_the_pace_holds_evictions_back(self, bench: MigrationBench) -> None:
        for name in ("p", "q"):
            bench.start_pod(name, owner=f"app-{name}")
        await bench.start(evictQPS=2)
        for name in ("p", "q"):
            bench.know(Replicas(4), f"app-{name}")
            bench.put_job(f"job-{name}", name, **DIRECT)
        for name in ("p", "q"):
            await bench.until_phase("Succeeded", f"job-{name}")
        assert len(bench.evictions()) == 2
        assert bench.warned == []

    @pytest.mark.parametrize("of", ["pod", "job"])
    async def test_pods_are_deleted_where_they_ask_for_it(
        self, bench: MigrationBench, of: str
    ) -> None:
        labels = {"koordinator.sh/evict-policy": "Delete"}
        bench.start_pod(labels=labels | {"app": "app"} if of == "pod" else {"app": "app"})
        await bench.start()
        bench.put_job(labels=labels if of == "job" else {}, **DIRECT)
        await bench.until_phase("Succeeded")
        assert not bench.evictions()
        assert bench.api.count("delete", "pods") == 1

    async def test_owners_get_a_notice(self, bench: MigrationBench) -> None:
        bench.start_pod()
        await bench.start(evictionPolicy="SoftEviction")
        bench.put_job(**DIRECT)
        key = ANNOTATION_SOFT_EVICTION
        await bench.until(
            lambda: key in bench.api.get(PODS, "p", "default")["metadata"].get("annotations", {})
        )
        await bench.rest()
        written = bench.api.get(PODS, "p", "default")["metadata"]["annotations"][key]
        assert json.loads(written)["reason"] == "NotSet"
        assert (bench.evictions(), bench.status()["phase"]) == ([], "Running")
        bench.end_pod()
        await bench.until_phase("Succeeded")


class TestNotice:
    """SoftEviction's notice to the owner of a pod goes with the job that wrote it."""

    def notice(self, bench: MigrationBench) -> str | None:
        metadata = bench.api.get(PODS, "p", "default")["metadata"]
        found: str | None = (metadata.get("annotations") or {}).get(ANNOTATION_SOFT_EVICTION)
        return found

    async def notified(self, bench: MigrationBench) -> None:
        bench.start_pod()
        await bench.start(evictionPolicy="SoftEviction")
        bench.put_job(**DIRECT)
        pods = bench.cluster.pods
        await bench.until(lambda: notice_author(pods["default/p"].view) is not None)

    @pytest.mark.parametrize("restarts", [False, True])
    @pytest.mark.parametrize("is_deleted", [False, True])
    async def test_every_abort_takes_it_back(
        self, bench: MigrationBench, is_deleted: bool, restarts: bool
    ) -> None:
        await self.notified(bench)
        if restarts:
            await bench.stop()
        if is_deleted:
            bench.api.delete(POD_MIGRATION_JOBS, "j")
        else:
            bench.api.put(POD_MIGRATION_JOBS, bench.job() | {"status": {"phase": "Failed"}})
        if restarts:
            await bench.start()
        await bench.until(lambda: self.notice(bench) is None)
        assert bench.warned == []

    @pytest.mark.parametrize("theirs", ['{"job": {"name": "k", "uid": "uid-k"}}', "{}", "no JSON"])
    async def test_that_of_others_stays(self, bench: MigrationBench, theirs: str) -> None:
        await self.notified(bench)
        bench.put_job("k", annotations={"koordinator.sh/job-created-by": "another"})
        document = bench.api.get(PODS, "p", "default")
        document["metadata"]["annotations"] = {ANNOTATION_SOFT_EVICTION: theirs}
        bench.api.put(PODS, document, "default")
        bench.api.delete(POD_MIGRATION_JOBS, "j")
        await bench.rest()
        assert self.notice(bench) == theirs

    async def test_one_written_meanwhile_stays(self, bench: MigrationBench) -> None:
        await self.notified(bench)
        known = bench.cluster.pods["default/p"].view
        document = bench.api.get(PODS, "p", "default")
        document["metadata"]["annotations"] = {ANNOTATION_SOFT_EVICTION: "{}"}
        bench.api.put(PODS, document, "default")
        await bench.controller._store.take_back(known)
        assert self.notice(bench) == "{}"


class TestReservation:
    @pytest.mark.parametrize(
        ("status", "reason"),
        [
            ({"phase": "Failed", "why": "Expired"}, "ReservationExpired"),
            ({"phase": "Failed", "why": "other"}, "Unschedulable"),
            ({"phase": "Available", "node": "a"}, "ForbiddenMigratePod"),
            ({"phase": "Succeeded", "node": "b"}, "ForbiddenMigratePod"),
        ],
    )
    async def test_it_is_freed_by_every_abort(
        self, bench: MigrationBench, status: dict[str, Any], reason: str
    ) -> None:
        """Defect 7: it outlived all but the timeout."""
        bench.start_pod()
        await bench.start()
        bench.put_job()
        await bench.reserve(**status)
        assert (await bench.until_phase("Failed"))["reason"] == reason
        await bench.until(lambda: bench.reservation() is None)
        assert not bench.evictions()

    async def test_without_a_node_the_job_ends_at_its_time(self, bench: MigrationBench) -> None:
        bench.start_pod()
        await bench.start()
        bench.put_job(ttl="2s")
        await bench.reserve(phase="Pending", why="0/2 nodes are available")
        status = await bench.until_phase("Failed")
        assert (status["reason"], status["message"]) == ("Unschedulable", "0/2 nodes are available")
        assert status["conditions"][-1]["type"] == "ReservationScheduled"
        await bench.until(lambda: bench.reservation() is None)

    async def test_one_that_is_gone_ends_the_job(self, bench: MigrationBench) -> None:
        bench.start_pod()
        await bench.start()
        bench.put_job(reservationOptions={"reservationRef": {"name": "given"}})
        assert (await bench.until_phase("Failed"))["reason"] == "MissingReservation"

    async def test_it_goes_with_its_job(self, bench: MigrationBench) -> None:
        bench.start_pod()
        await bench.start()
        bench.put_job()
        await bench.until(lambda: bench.reservation() is not None)
        await bench.until(lambda: "reservationOptions" in bench.job()["spec"])
        bench.api.delete(POD_MIGRATION_JOBS, "j")
        await bench.until(lambda: bench.reservation() is None)

    async def test_one_that_the_job_names_is_not_its_own(self, bench: MigrationBench) -> None:
        bench.start_pod()
        await bench.start()
        given = {"metadata": {"name": "given"}, "spec": {"owners": [], "template": {}}}
        bench.api.put(RESERVATIONS, given)
        bench.put_job(reservationOptions={"reservationRef": {"name": "given"}})
        await bench.until(lambda: "labels" in bench.api.get(RESERVATIONS, "given")["metadata"])
        await bench.reserve("given", phase="Failed", why="Expired")
        await bench.until_phase("Failed")
        await bench.rest()
        assert bench.reservation("given") is not None

    async def test_one_made_before_a_crash_is_taken_over(self, bench: MigrationBench) -> None:
        bench.start_pod()
        await bench.start()
        bench.put_job(paused=True)
        await bench.rest()
        document = bench.job()
        document["spec"]["paused"] = False
        document |= {"status": {"phase": "Running"}}
        bench.api.put(RESERVATIONS, reservation_document())
        bench.api.put(POD_MIGRATION_JOBS, document)
        await bench.reserve()
        await bench.replace()
        await bench.until_phase("Succeeded")
        assert not bench.api.count("create", "reservations")

    async def test_a_pod_of_another_controller_is_not_the_moved_one(
        self, bench: MigrationBench
    ) -> None:
        """Defect 10."""
        bench.start_pod()
        await bench.start()
        bench.put_job()
        await bench.reserve()
        await bench.until(lambda: not bench.has_pod("p"))
        bench.start_pod("q", "b", owner="another")
        owner = {"namespace": "default", "name": "q", "uid": "uid-q"}
        await bench.reserve(phase="Succeeded", node="b", taken_by=[owner])
        status = await bench.until_phase("Failed")
        assert status["message"] == "Reservation is already bound by another Pod"

    @pytest.mark.parametrize(("status", "ends"), [(422, True), (403, False)])
    async def test_it_cannot_be_made(self, bench: MigrationBench, status: int, ends: bool) -> None:
        bench.start_pod()
        await bench.start()
        bench.api.fail(verb="create", plural="reservations", status=status)
        bench.put_job()
        if ends:
            assert (await bench.until_phase("Failed"))["reason"] == "FailedCreateReservation"
        else:
            await bench.until(lambda: bench.status().get("reason") == "FailedCreateReservation")
            await bench.until(lambda: bench.reservation() is not None)


async def test_old_jobs_are_deleted(bench: MigrationBench) -> None:
    bench.start_pod("q")
    bench.put_job("old", phase="Succeeded", ago=601)
    bench.put_job("paused", paused=True, ago=601)
    bench.put_job("young", phase="Succeeded", ago=500)
    evicted = [("Eviction", "True", "EvictComplete")]
    await bench.start(objectLimiters={"workload": {"duration": "1h"}})
    bench.put_job("limiting", phase="Succeeded", ago=601, conditions=evicted)
    document = bench.job("limiting")
    document["status"]["conditions"][0]["lastTransitionTime"] = "2126-01-01T00:00:00Z"
    bench.api.put(POD_MIGRATION_JOBS, document)
    await bench.until(lambda: bench.api.count("delete", "podmigrationjobs") >= 2)
    await bench.rest()
    names = {key.name for key in bench.api.objects if key.resource == POD_MIGRATION_JOBS}
    assert names == {"young", "limiting"}


async def test_a_dry_run_makes_no_jobs(bench: MigrationBench) -> None:
    controller = await bench.start(dryRun=True)
    outcome = await controller.execute(Move(view(), "b", "d", "LowNodeLoad", "hot"))
    assert (outcome.end, outcome.pod_stays) == (EvictionResult.EVICTED, False)
    assert not bench.api.count("create", "podmigrationjobs")


async def test_paused_jobs_wait(bench: MigrationBench) -> None:
    bench.start_pod()
    await bench.start()
    bench.put_job(paused=True, **DIRECT)
    await bench.rest()
    assert not bench.status()
    document = bench.job()
    document["spec"]["paused"] = False
    bench.api.put(POD_MIGRATION_JOBS, document)
    await bench.until_phase("Succeeded")


@pytest.mark.parametrize(("created_by", "is_problem"), [("koord-descheduler", True), ("", False)])
async def test_a_missing_definition_is_a_problem_of_those_who_make_jobs(
    bench: MigrationBench, created_by: str, is_problem: bool
) -> None:
    bench.api.installed -= {POD_MIGRATION_JOBS}
    controller = await bench.start(created_by=created_by)
    asked = bench.api.asked
    await bench.until(lambda: sum("podmigrationjobs" in one.path for one in asked) > 2)
    assert controller.problem.startswith("PodMigrationJobs are not installed") is is_problem


class TestSets:
    """Jobs of p and q, which go to b, and a third one of r, which counts on the room of q."""

    @pytest.fixture
    async def set_of(self, bench: MigrationBench) -> MigrationBench:
        for name, node in (("p", "a"), ("q", "b"), ("r", "a")):
            bench.start_pod(name, node, owner=f"app-{name}")
        await self.start(bench)
        return bench

    async def start(self, bench: MigrationBench) -> None:
        await bench.start()
        for name in "pqr":
            bench.know(Replicas(4), f"app-{name}")

    def put(self, bench: MigrationBench, names: str = "pqr", **fields: Any) -> None:
        for name in names:
            written = {"name": "s", "wave": int(name == "r"), "size": 3}
            annotations = {ANNOTATION_MOVE_SET: json.dumps(written)}
            bench.put_job(f"j{name}", name, annotations=annotations, **fields)

    async def test_nobody_leaves_before_all_places_of_the_wave_stand(
        self, set_of: MigrationBench
    ) -> None:
        bench = set_of
        self.put(bench, "pq")
        await bench.rest()
        assert not bench.status("jp"), "the set is not complete"
        self.put(bench, "r")
        await bench.reserve("uid-jp", phase="Available", node="b")
        await bench.until(lambda: bench.reservation("uid-jq") is not None)
        await bench.stop()
        await self.start(bench)
        await bench.rest()
        assert not bench.evictions()
        await bench.reserve("uid-jq", phase="Available", node="c")
        for name in "pq":
            await bench.until(partial(lambda name: not bench.has_pod(name), name))
        await bench.until(lambda: bench.reservation("uid-jr") is not None)
        assert bench.has_pod("r")
        await bench.reserve("uid-jr", phase="Available", node="b")
        await bench.until(lambda: not bench.has_pod("r"))

    async def test_one_that_fails_stops_those_that_are_not_evicted(
        self, set_of: MigrationBench
    ) -> None:
        bench = set_of
        self.put(bench)
        await bench.reserve("uid-jp", phase="Available", node="b")
        await bench.until(lambda: bench.status("jp").get("nodeName") == "b")
        bench.end_pod("q")
        for name in "pr":
            status = await bench.until_phase("Failed", f"j{name}")
            assert status["message"].startswith("its set stays: default/q failed (MissingPod: ")
        await bench.until(lambda: bench.reservation("uid-jp") is None)
        assert bench.evictions() == []

    async def test_an_eviction_that_is_refused_is_given_up_with_the_set(
        self, set_of: MigrationBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One pod has gone already: its job goes on."""
        bench = set_of
        monkeypatch.setattr(job_evictor, "_REFUSED_SECONDS", 0.05)
        bench.start_pod("p", "a", owner="app-p", labels={"app": "app"})
        bench.start_pod("q", "b", owner="app-q", labels={"app": "another"})
        self.put(bench)
        await bench.until(lambda: bench.status("jp").get("phase") == "Running")
        bench.put_budget(0)
        await bench.reserve("uid-jp", phase="Available", node="b")
        await bench.reserve("uid-jq", phase="Available", node="c")
        await bench.until(lambda: "disruption budget" in bench.status("jp").get("message", ""))
        await bench.until(lambda: not bench.has_pod("q"))
        bench.end_pod("r")
        message = (await bench.until_phase("Failed", "jp"))["message"]
        assert message.startswith("its set stays: default/r failed")
        await bench.until(lambda: bench.reservation("uid-jp") is None)
        assert bench.has_pod("p")
        assert bench.status("jq")["phase"] == "Running"

    async def test_one_that_is_deleted_stops_the_others(self, set_of: MigrationBench) -> None:
        bench = set_of
        self.put(bench)
        await bench.until(lambda: bench.reservation("uid-jp") is not None)
        bench.offset = 31.0
        bench.api.delete(POD_MIGRATION_JOBS, "jr")
        status = await bench.until_phase("Failed", "jp")
        assert status["message"] == "its set stays: 1 of its jobs are not there"
