"""Arbitration of PodMigrationJobs, against Koordinator's: their order, and the limits."""

from __future__ import annotations

import json

from koord_descheduler.migration.core.arbitration import WaitingJob, in_order
from koord_descheduler.migration.core.job import JobPhase, read_migration_job
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.workloads import Replicas
from koord_descheduler.plugins.migration_controller.args import MigrationControllerArgs
from koord_descheduler.plugins.migration_controller.limits import limit_of
from koord_descheduler.plugins.migration_controller.who_may_move import (
    MovementRules,
    lasting_obstacle,
    passing_obstacle,
    workload_state,
)
from koord_scheduler.arguments.problems import SchedulerConfigError, convert, refuse_if

from tests.conformance.descheduling import AskedRound
from tests.conformance.vectors import Fields, Object, Vector, replay

LASTING = ("expectedReplicas", "evictionCost")
PASSING = ("globally", "node", "namespace", "workload")


def ours(vector: Vector) -> Fields:
    given = vector.given
    cluster = AskedRound(given).cluster
    for known in cluster.pods.values():
        workload = known.view.template.workload
        if workload is not None:
            replicas = given["workloads"].get(f"u-{workload.name}")
            problem = "" if replicas is not None else "it has no scale"
            cluster.workloads.learn(workload, Replicas(replicas, problem), 0.0)
    jobs = [read_migration_job(json.dumps(document).encode()) for document in given["jobs"]]
    pods = {job.name: cluster.pods[job.pod.key].view for job in jobs}
    moving = [pods[job.name] for job in jobs if job.phase == JobPhase.RUNNING]
    waiting = [WaitingJob(job, pods[job.name]) for job in jobs if job.is_waiting]
    found: Object = {
        f"{place} limit": limit(one["replicas"], one.get("limit"))
        for place, one in enumerate(given["limits"])
    }
    found["order"] = [one.job.name for one in in_order(waiting, moving)]
    rules = MovementRules(convert(given["args"], MigrationControllerArgs))

    def obstacles(pod: ObservedPod) -> tuple[str, str]:
        workload = workload_state(pod, cluster)
        lasting = lasting_obstacle(pod, rules, workload)
        return lasting, passing_obstacle(pod, rules, moving, workload)

    for known in cluster.pods.values():
        lasting, passing = obstacles(known.view)
        found |= {f"{known.view.key} lasting": not lasting, f"{known.view.key} now": not passing}
    return found


def limit(replicas: int, given: int | str | None) -> int | str:
    try:
        args = convert(
            {"maxMigratingPerWorkload": given, "skipCheckExpectedReplicas": True},
            MigrationControllerArgs,
        )
        refuse_if(args.problems(""))
    except SchedulerConfigError:
        return "error"
    return limit_of(replicas, given)


def flat(recorded: Object) -> Fields:
    found: Object = {f"{place} limit": one for place, one in enumerate(recorded["limits"])}
    found["order"] = recorded["order"]
    for key, filters in recorded["filters"].items():
        found[f"{key} lasting"] = all(filters[name] for name in LASTING)
        found[f"{key} now"] = all(filters[name] for name in PASSING)
    return found


def pods_of_jobs_may_move(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """A Job has no scale: by mistake Koordinator never moves its pods, whatever arguments say.

    Here that is so unless ExpectedReplicas is turned off; their number is that of its pods.
    """
    owners = [
        owner["kind"]
        for pod in vector.given["pods"]
        for owner in pod["metadata"].get("ownerReferences", ())
        if field.split()[0] == f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    ]
    return owners == ["Job"] and bool(here[field])


def test_jobs_wait_as_in_koordinator() -> None:
    replay("descheduler_arbitration", ours, flat, (pods_of_jobs_may_move,))
