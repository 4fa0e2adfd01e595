"""Jobs begin in Koordinator's order, each by the rules of who may move."""

from __future__ import annotations

from typing import Any

import pytest
from koord_descheduler.migration.core.arbitration import Arbitration, WaitingJob, in_order
from koord_descheduler.migration.core.job import ANNOTATION_MOVE_SET
from koord_descheduler.planner.workloads import Replicas
from koord_descheduler.plugins.migration_controller.args import MigrationControllerArgs
from koord_descheduler.plugins.migration_controller.who_may_move import (
    ANNOTATION_EVICT,
    MovementRules,
)
from koord_scheduler.arguments.problems import convert
from koord_scheduler.config.scheduler_config import scheduler_config

from tests.descheduler.clusters import TestCluster, node, pod
from tests.descheduler.migration.jobs import job
from tests.support.gangs import gang_annotations

CONFIG = scheduler_config(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}}],
    }
)


class Jobs:
    """Pods with replicas enough, and a waiting job of each."""

    def __init__(self) -> None:
        self.cluster = TestCluster(CONFIG)
        self.cluster.put(node("a"), node("b"))
        self.waiting: dict[str, WaitingJob] = {}

    def add(self, name: str, *, ago: float = 10.0, replicas: int = 20, **of_pod: Any) -> None:
        self.cluster.put(pod(name, of_pod.pop("on", "a"), **of_pod))
        view = self.cluster.cluster.pods[f"default/{name}"].view
        ref = {"namespace": "default", "name": name, "uid": view.uid}
        self.waiting[name] = WaitingJob(job(name, ref=ref, phase="", ago=ago), view)
        if (workload := view.template.workload) is not None:
            self.cluster.cluster.workloads.learn(workload, Replicas(replicas), 0.0)

    def decide(self, *moving: str, evicting: bool = True, **fields: Any) -> dict[str, str]:
        given = {"maxMigratingPerNode": 0, **fields}
        rules = MovementRules(convert(given, MigrationControllerArgs))
        pods = [self.waiting.pop(name).pod for name in moving]
        arbitration = Arbitration(self.cluster.cluster, rules, pods, pods if evicting else [])
        results = arbitration.decide(self.waiting.values())
        return {one.waiting.job.name: one.failed or one.waits or "begins" for one in results}


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


def test_order_is_by_age_then_pod_then_job_then_pods_that_move(jobs: Jobs) -> None:
    batch = {"labels": {"koordinator.sh/priority-class": "koord-batch"}}
    of_job = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    ]
    jobs.add("old", ago=100)
    jobs.add("new", ago=1)
    jobs.add("cheap", ago=100, **batch)
    jobs.add("j0", ago=200, ownerReferences=of_job, **batch)
    jobs.add("j1", ago=300, ownerReferences=of_job)
    names = [one.job.name for one in in_order(jobs.waiting.values(), [])]
    assert names == ["cheap", "j0", "j1", "new", "old"]
    moving = [jobs.waiting["j0"].pod]
    names = [one.job.name for one in in_order(jobs.waiting.values(), moving)]
    assert names == ["j0", "j1", "cheap", "new", "old"]


def test_jobs_that_begin_count_for_those_after_them(jobs: Jobs) -> None:
    for place, name in enumerate(("third", "second", "first")):
        jobs.add(name, ago=100 - place)
    found = jobs.decide(maxMigratingGlobally=2)
    assert found == {
        "first": "begins",
        "second": "begins",
        "third": "maxMigratingGlobally is 2, and 2 pods move already",
    }


def test_what_will_never_do_fails(jobs: Jobs) -> None:
    jobs.add("bare", owner=None)
    jobs.add("single", owner="single", replicas=1)
    found = jobs.decide()
    assert found["bare"].startswith("it has no owner")
    assert found["single"] == "ReplicaSet default/single has one replica (ExpectedReplicas)"


def test_a_job_that_somebody_answers_for_begins(jobs: Jobs) -> None:
    """But for pods that would start again where they are; limits and budgets count."""
    daemon = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d",
               "controller": True}]  # fmt: skip
    jobs.add("bare", owner=None)
    jobs.add("critical", namespace="default", spec={"priority": 2_000_000_000})
    jobs.add("daemon", ownerReferences=daemon)
    jobs.add("single", owner="single", replicas=1)
    for name, waiting in jobs.waiting.items():
        ordered = waiting.job._replace(annotations={ANNOTATION_EVICT: "d"})
        jobs.waiting[name] = waiting._replace(job=ordered)
    assert jobs.decide() == {
        "bare": "begins",
        "critical": "begins",
        "daemon": "it would start again on its node",
        "single": "begins",
    }


@pytest.mark.parametrize(("evicting", "waits"), [(True, True), (False, False)])
def test_disruption_budgets_are_looked_at_before(jobs: Jobs, evicting: bool, waits: bool) -> None:
    """Pods that are to be evicted spend them; those that are gone did already."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb", "namespace": "default", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "app"}}},
        "status": {"disruptionsAllowed": 1, "observedGeneration": 1},
    }
    jobs.cluster.put(budget)
    jobs.add("p0")
    jobs.add("p1")
    found = jobs.decide("p0", evicting=evicting)
    expected = "PodDisruptionBudget pdb allows no disruption now" if waits else "begins"
    assert found == {"p1": expected}


class TestGangs:
    @pytest.fixture
    def gang(self, jobs: Jobs) -> Jobs:
        for place in range(3):
            jobs.add(f"g{place}", annotations=gang_annotations("g", 3), replicas=4)
        jobs.add("other", ago=100, owner="another")
        return jobs

    def test_all_begin(self, gang: Jobs) -> None:
        """Limits of a workload would let two of them go."""
        assert set(gang.decide().values()) == {"begins"}

    def test_or_none(self, gang: Jobs) -> None:
        found = gang.decide(maxMigratingGlobally=2)
        assert found.pop("other") == "begins", "what they did not get is there for others"
        assert set(found.values()) == {
            "its gang waits: default/g2: maxMigratingGlobally is 2, and 2 pods move already"
        }

    def test_all_need_jobs(self, gang: Jobs) -> None:
        gang.waiting.pop("g1")
        found = gang.decide()
        why = "its gang moves as a whole, and default/g1 has no job"
        assert (found["g0"], found["g2"], found["other"]) == (why, why, "begins")

    def test_one_that_never_will_keeps_all(self, gang: Jobs) -> None:
        gang.add("g1", annotations=gang_annotations("g", 3), spec={"volumes": [{"emptyDir": {}}]})
        found = gang.decide()
        assert found["g0"] == found["g1"]
        assert found["g1"].startswith("its gang stays: default/g1 it has local storage")

    def test_those_that_move_already_are_with_it(self, gang: Jobs) -> None:
        assert gang.decide("g0")["g1"] == "begins"


class TestSets:
    @pytest.fixture
    def jobs(self, jobs: Jobs) -> Jobs:
        """A set of three of different workloads, and another job that is older."""
        for place in range(3):
            jobs.add(f"s{place}", owner=f"owner-{place}")
            waiting = jobs.waiting[f"s{place}"]
            written = {ANNOTATION_MOVE_SET: '{"name": "s", "wave": 0, "size": 3}'}
            jobs.waiting[f"s{place}"] = waiting._replace(
                job=waiting.job._replace(annotations=written), together=3
            )
        return jobs

    def test_all_begin_or_none(self, jobs: Jobs) -> None:
        assert set(jobs.decide().values()) == {"begins"}
        jobs.add("other", ago=100, owner="another")
        found = jobs.decide(maxMigratingGlobally=2)
        assert found.pop("other") == "begins"
        why = "maxMigratingGlobally is 2, and 2 pods move already"
        assert set(found.values()) == {f"its set waits: default/s2: {why}"}

    def test_all_have_to_be_there(self, jobs: Jobs) -> None:
        del jobs.waiting["s1"]
        assert set(jobs.decide().values()) == {"its set moves as a whole, and 1 cannot begin"}
