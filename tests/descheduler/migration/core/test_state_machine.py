"""Every row of the table of a job's steps, and that no other step follows from its situation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from koord_descheduler.migration.core.job import LABEL_EVICT_POLICY, JobCondition, PodReference
from koord_descheduler.migration.core.situation import GroupProgress, JobSituation
from koord_descheduler.migration.core.soft_eviction import (
    ANNOTATION_SOFT_EVICTION,
    soft_eviction,
)
from koord_descheduler.migration.core.state_machine import RULES, next_step, rule_of
from koord_descheduler.migration.core.step import FORBIDDEN, JobAction, JobStep
from koord_descheduler.plugins.migration_controller.args import EvictionPolicy, MigrationMode
from koord_descheduler.plugins.migration_controller.who_may_move import ANNOTATION_EVICT
from koord_model.times import rfc3339
from msgspec import convert

from tests.descheduler.clusters import NOW
from tests.descheduler.migration.jobs import job, reservation, view

ENDING = "2026-01-01T00:00:00Z"
NEW_POD = {"namespace": "default", "name": "q", "uid": "uid-q"}
EVICTING = ("Eviction", "False", "Evicting")
EVICTED = ("Eviction", "True", "EvictComplete")
PENDING_OWNER = [{"object": {"kind": "Pod", "namespace": "default", "name": "p"}}]
DIRECT = {"mode": "EvictDirectly"}
RESERVED: dict[str, Any] = {"reservation": "uid-j", "node": "b"}
AVAILABLE: dict[str, Any] = {"phase": "Available", "node": "b"}
NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}]}


def at(about: dict[str, Any] | None = None, **situation: Any) -> JobSituation:
    given: dict[str, Any] = {"pod": view(), **situation}
    if isinstance(given.get("reservation"), dict):
        given["reservation"] = reservation(**given["reservation"])
    return JobSituation(job(**(about or {})), NOW, **given)


def evicted(**fields: Any) -> dict[str, Any]:
    conditions = [("ReservationScheduled", "True"), EVICTED, *fields.pop("conditions", ())]
    return {**RESERVED, "conditions": conditions, **fields}


class Row(NamedTuple):
    rule: str
    situation: JobSituation
    action: JobAction = JobAction.NOTHING
    phase: str = ""
    reason: str = ""
    condition: tuple[str, str, str] | None = None
    again: float | None = None


FAILED = GroupProgress(failed="default/k failed")
FREE, NOTHING, EVICT, WAITS = (
    JobAction.FREE,
    JobAction.NOTHING,
    JobAction.EVICT,
    JobAction.ARBITRATE,
)
NOTICED = view(annotations=soft_eviction(job(), NOW))
TABLE = [
    Row("notice", at({"phase": "Failed"}, pod=NOTICED, reservation={}), JobAction.TAKE_BACK),
    Row("over", at({"phase": "Failed", "name": "k"}, pod=NOTICED)),
    Row("over", at({"phase": "Succeeded"}, pod=NOTICED)),
    Row("free", at({"phase": "Failed"}, reservation={}), FREE),
    Row("free", at({"phase": "Aborted", "ago": 900}, reservation={}), FREE),
    Row("over", at({"phase": "Failed", "reservation": "r"}, reservation={"name": "r", "of": ""})),
    Row("over", at({"phase": "Succeeded", "ago": 900}, reservation=AVAILABLE)),
    Row("over", at({"phase": "Failed", "ago": 900})),
    Row("paused", at({"phase": "", "paused": True, "ago": 900})),
    Row("timeout", at({"phase": "", "ago": 300}), phase="Failed", reason="Timeout"),
    Row("timeout", at({"phase": "", "ago": 1800, "ttl": "0s"}), phase="Failed", reason="Timeout"),
    Row("timeout", at(evicted(ago=300), reservation=AVAILABLE), phase="Failed", reason="Timeout"),
    Row(
        "timeout",
        at({"ago": 300, "conditions": [("ReservationScheduled", "False", "Unschedulable", "no")]}),
        phase="Failed",
        reason="Unschedulable",
    ),
    Row(
        "invalid podRef",
        at({"ref": {"name": "p"}}, pod=None),
        phase="Failed",
        reason="InvalidPodRef",
    ),
    Row("missing pod", at({"phase": ""}, pod=None), phase="Failed", reason="MissingPod"),
    Row(
        "missing pod", at({"phase": ""}, pod=view(uid="other")), phase="Failed", reason="MissingPod"
    ),
    Row(
        "missing pod",
        at(RESERVED, pod=None, reservation=AVAILABLE),
        phase="Failed",
        reason="MissingPod",
    ),
    Row("waiting", at({"phase": ""}), JobAction.ARBITRATE, again=290),
    Row("waiting", at({"phase": "Pending", "ttl": "0s"}), JobAction.ARBITRATE, again=1790),
    Row("pod gone", at({"conditions": [EVICTING], **DIRECT}, pod=None), condition=EVICTED),
    Row(
        "pod gone",
        at({"conditions": [EVICTING], **RESERVED}, pod=view(uid="new")),
        condition=EVICTED,
    ),
    Row("evicted directly", at({"conditions": [EVICTED], **DIRECT}, pod=None), phase="Succeeded"),
    Row(
        "evicted directly",
        at({"conditions": [EVICTED]}, pod=None, default_mode=MigrationMode.EVICT_DIRECTLY),
        phase="Succeeded",
    ),
    Row(
        "ready",
        at(evicted(new_pod=NEW_POD), pod=None, new_pod=view("q", "b")),
        phase="Succeeded",
        condition=("PodBoundReservation", "True", ""),
    ),
    Row("ready", at(evicted(new_pod=NEW_POD), pod=None), phase="Succeeded"),
    Row(
        "not ready",
        at(evicted(new_pod=NEW_POD), new_pod=view("q", "b", status=NOT_READY)),
        condition=("BoundPodReady", "False", "WaitForBoundPodReady"),
    ),
    Row(
        "not ready",
        at(
            evicted(new_pod=NEW_POD, conditions=[("BoundPodReady", "False")]),
            new_pod=view("q", "b", status=NOT_READY),
        ),
        again=290,
    ),
    Row(
        "ending",
        at({"conditions": [EVICTING], **DIRECT}, pod=view(deletionTimestamp=ENDING)),
        again=290,
    ),
    Row(
        "ending",
        at(
            {"conditions": [EVICTING], **DIRECT},
            pod=view(annotations={ANNOTATION_SOFT_EVICTION: "{}"}),
            default_policy=EvictionPolicy.SOFT_EVICTION,
        ),
        again=290,
    ),
    Row("limited", at(limiter_wait=20.0), again=20.0),
    Row("limited", at(limiter_wait=400.0), again=290),
    Row("limited", at(RESERVED, reservation=AVAILABLE, limiter_wait=20.0), again=20.0),
    Row("reserve", at(), JobAction.RESERVE),
    Row(
        "reserve", at({"annotations": {ANNOTATION_EVICT: ""}}, limiter_wait=20.0), JobAction.RESERVE
    ),
    Row("link", at(reservation={}), JobAction.LINK),
    Row("missing Reservation", at(RESERVED), phase="Failed", reason="MissingReservation"),
    Row("missing Reservation", at(evicted()), phase="Failed", reason="MissingReservation"),
    Row("order", at(RESERVED, reservation={"order": False}), JobAction.SET_ORDER),
    Row(
        "expired",
        at(RESERVED, reservation={"phase": "Failed", "why": "Expired"}),
        phase="Failed",
        reason="ReservationExpired",
    ),
    Row(
        "newly unschedulable",
        at({"reservation": "uid-j"}, reservation={"why": "no node"}),
        condition=("ReservationScheduled", "False", "Unschedulable"),
    ),
    Row("pending", at({"reservation": "uid-j"}, reservation={}), again=290),
    Row(
        "pending",
        at(
            {
                "reservation": "uid-j",
                "conditions": [("ReservationScheduled", "False", "Unschedulable", "no node")],
            },
            reservation={"why": "no node"},
        ),
        again=290,
    ),
    Row(
        "unscheduled",
        at({"reservation": "uid-j"}, reservation={"phase": "Failed", "why": "x"}),
        phase="Failed",
        reason="Unschedulable",
    ),
    Row(
        "same node",
        at({"reservation": "uid-j"}, reservation={**AVAILABLE, "node": "a"}),
        phase="Failed",
        reason="ForbiddenMigratePod",
    ),
    Row(
        "scheduled",
        at({"reservation": "uid-j"}, reservation=AVAILABLE),
        condition=("ReservationScheduled", "True", ""),
    ),
    Row(
        "pending pod scheduled",
        at(RESERVED, pod=view(on="b"), reservation={**AVAILABLE, "owners": PENDING_OWNER}),
        phase="Succeeded",
        condition=("PodScheduled", "True", ""),
    ),
    Row(
        "pending pod",
        at(RESERVED, pod=view(on=""), reservation={**AVAILABLE, "owners": PENDING_OWNER}),
        again=290,
    ),
    Row(
        "taken",
        at(RESERVED, reservation={"phase": "Succeeded", "node": "b"}),
        phase="Failed",
        reason="ForbiddenMigratePod",
    ),
    *(
        Row("group failed", at(about, **more, group=FAILED), phase="Failed", reason=FORBIDDEN)
        for about, more in (
            ({"phase": ""}, {}),
            ({"reservation": "uid-j"}, {"reservation": {}}),
            ({"conditions": [EVICTING], **RESERVED}, {"reservation": AVAILABLE}),
        )
    ),
    Row(
        "ending",
        at({"conditions": [EVICTING]}, pod=view(deletionTimestamp=ENDING), group=FAILED),
        again=290,
    ),
    Row("pod gone", at({"conditions": [EVICTING]}, pod=None, group=FAILED), condition=EVICTED),
    Row("not bound", at(evicted(), pod=None, reservation=AVAILABLE, group=FAILED)),
    Row(
        "group missing",
        at({"phase": "", "ago": 30}, group=GroupProgress(missing=1)),
        phase="Failed",
        reason=FORBIDDEN,
    ),
    Row("group comes", at({"phase": ""}, group=GroupProgress(missing=1)), again=20),
    Row("earlier wave", at(group=GroupProgress((), ("k",))), again=290),
    Row("group waits", at(RESERVED, reservation=AVAILABLE, group=GroupProgress(("k",))), again=290),
    Row(
        "not bound",
        at(evicted(), pod=None, reservation=AVAILABLE),
        condition=("PodBoundReservation", "False", "WaitForPodBindReservation"),
    ),
    Row(
        "not bound",
        at(evicted(conditions=[("PodBoundReservation", "False")]), reservation=AVAILABLE),
        again=290,
    ),
    Row(
        "taken",
        at(evicted(), pod=None, reservation={"phase": "Succeeded", "node": "b"}),
        phase="Failed",
        reason="ForbiddenMigratePod",
    ),
    Row(
        "taken",
        at(
            evicted(),
            pod=None,
            reservation={**AVAILABLE, "taken_by": [NEW_POD]},
            new_pod=view("q", "b", owner="another"),
        ),
        phase="Failed",
        reason="ForbiddenMigratePod",
    ),
    Row(
        "taken",
        at(RESERVED, reservation={**AVAILABLE, "taken_by": [NEW_POD]}),
        phase="Failed",
        reason="ForbiddenMigratePod",
    ),
    Row(
        "bound",
        at(
            evicted(),
            pod=None,
            reservation={**AVAILABLE, "taken_by": [NEW_POD]},
            new_pod=view("q", "b"),
        ),
        condition=("ReservationBound", "True", ""),
    ),
    Row(
        "bound",
        at(evicted(), pod=None, reservation={**AVAILABLE, "taken_by": [NEW_POD]}),
        condition=("ReservationBound", "True", ""),
    ),
    Row("decide", at(RESERVED, reservation=AVAILABLE), condition=EVICTING),
    Row("decide", at(DIRECT), condition=EVICTING),
    Row("later", at({"conditions": [EVICTING], **DIRECT}, eviction_wait=5.0), again=5.0),
    Row("evict", at({"conditions": [EVICTING], **DIRECT}), JobAction.EVICT),
    Row(
        "evict",
        at({"conditions": [EVICTING], **RESERVED}, reservation=AVAILABLE, limiter_wait=100.0),
        JobAction.EVICT,
    ),
]


def conditions_of(step: JobStep) -> set[tuple[str, str, str]]:
    return {
        (found["type"], found["status"], found.get("reason", ""))
        for found in step.status.get("conditions", ())
    }


@pytest.mark.parametrize("row", TABLE, ids=[f"{n}-{row.rule}" for n, row in enumerate(TABLE)])
def test_step(row: Row) -> None:
    assert rule_of(row.situation).name == row.rule
    step = next_step(row.situation)
    assert (step.action, step.status.get("phase", "")) == (row.action, row.phase)
    if row.phase == "Failed":
        assert step.status["reason"] == row.reason
        assert step.status["message"]
    if row.condition is not None:
        assert row.condition in conditions_of(step)
    assert step.again == (0.0 if step.status and row.phase != "Succeeded" else row.again)


def test_each_rule_has_a_row() -> None:
    assert {rule.name for rule in RULES} == {row.rule for row in TABLE}


def test_a_rule_writes_nothing_twice() -> None:
    """Otherwise the change of the job would be its own cause."""
    for row in TABLE:
        if row.situation.job.is_paused or row.action is not NOTHING or not row.condition:
            continue
        step = next_step(row.situation)
        written = {**row.situation.job._asdict(), "phase": "Running"}
        about = row.situation.job._replace(
            conditions=tuple(convert(step.status["conditions"], list[JobCondition])),
            node=step.status.get("nodeName", written["node"]),
            phase=step.status.get("phase", "Running"),
            new_pod=convert(step.status["podRef"], PodReference)
            if "podRef" in step.status
            else written["new_pod"],
        )
        assert next_step(replace(row.situation, job=about)).status != step.status, row.rule


def test_only_ends_without_success_are_warnings() -> None:
    for row in TABLE:
        event = next_step(row.situation).event
        if event is not None and row.rule != "newly unschedulable":
            assert event.is_warning is (row.phase == "Failed"), row.rule


class TestEviction:
    def test_the_decision_keeps_its_time_until_the_end(self) -> None:
        step = next_step(at(DIRECT))
        (began,) = step.status["conditions"]
        assert began["lastProbeTime"] == began["lastTransitionTime"] == rfc3339(NOW)
        evicting = job(**DIRECT)._replace(conditions=tuple(convert([began], list[JobCondition])))
        later = next_step(JobSituation(evicting, NOW + 60, pod=None))
        (ended,) = later.status["conditions"]
        assert ended["lastProbeTime"] == rfc3339(NOW)
        assert ended["lastTransitionTime"] == rfc3339(NOW + 60)

    def test_a_condition_that_stays_as_it_is_keeps_its_time(self) -> None:
        scheduled = [("ReservationCreated", "True"), ("ReservationScheduled", "True")]
        step = next_step(at({**RESERVED, "conditions": scheduled}, reservation=AVAILABLE))
        times = [found["lastTransitionTime"] for found in step.status["conditions"]]
        assert times == [rfc3339(NOW - 5), rfc3339(NOW - 5), rfc3339(NOW)]

    def test_the_reason_is_the_jobs(self) -> None:
        annotations = {"koordinator.sh/evict-trigger": "LowNodeLoad"}
        step = next_step(at({"annotations": annotations, **DIRECT}))
        assert step.status["message"] == (
            'Pod "default/p" evicted from node "a" by the reason "LowNodeLoad"'
        )

    @pytest.mark.parametrize(
        ("of_pod", "of_job", "policy"),
        [
            ({}, {}, EvictionPolicy.EVICTION),
            ({}, {"labels": {LABEL_EVICT_POLICY: "Delete"}}, EvictionPolicy.DELETE),
            ({}, {"labels": {LABEL_EVICT_POLICY: "unknown"}}, EvictionPolicy.EVICTION),
            (
                {"labels": {LABEL_EVICT_POLICY: "SoftEviction"}},
                {"labels": {LABEL_EVICT_POLICY: "Delete"}},
                EvictionPolicy.SOFT_EVICTION,
            ),
        ],
    )
    def test_the_policy_is_the_pods_then_the_jobs(
        self, of_pod: Any, of_job: Any, policy: EvictionPolicy
    ) -> None:
        assert at(of_job, pod=view(**of_pod)).policy is policy

    def test_a_notice_is_no_end_where_the_pod_is_to_be_evicted(self) -> None:
        pod = view(annotations={ANNOTATION_SOFT_EVICTION: "{}"})
        assert next_step(at({"conditions": [EVICTING], **DIRECT}, pod=pod)).action is EVICT
