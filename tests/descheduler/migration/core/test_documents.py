"""Documents as Koordinator writes them, and what they have beyond that."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_descheduler.migration.core.documents import (
    begin_patch,
    request_of,
    reservation_document,
)
from koord_descheduler.migration.core.job import JobOrigin, read_migration_job
from koord_descheduler.migration.core.soft_eviction import soft_eviction
from koord_descheduler.planner.move import Move
from koord_descheduler.plugins.migration_controller.args import MigrationControllerArgs
from koord_scheduler.arguments.problems import convert

from tests.descheduler.clusters import NOW, pod
from tests.descheduler.migration.jobs import job, view

ARGS = MigrationControllerArgs()
SKIPPED = {"key": "metadata.name", "operator": "NotIn", "values": ["a"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def move(target: str = "b") -> Move:
    return Move(view(), target, "test", "LowNodeLoad", "node is overutilized")


def test_a_job_of_a_move() -> None:
    request = request_of(move(), ARGS, "koord-descheduler", "j")
    made = read_migration_job(request.payload)
    assert (request.method, request.path) == (
        "POST", "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
    )  # fmt: skip
    assert (made.name, made.pod.key, made.pod.uid) == ("j", "default/p", "uid-p")
    assert (made.mode, made.ttl, made.created_by) == (
        "ReservationFirst",
        300.0,
        "koord-descheduler",
    )
    assert (made.trigger, made.eviction_reason) == ("LowNodeLoad", "node is overutilized")
    assert made.annotations["descheduler.koordinator.sh/preferred-node"] == "b"


def test_a_job_may_need_its_target_or_none() -> None:
    required = request_of(move()._replace(is_pinned=True), ARGS, "d", "j")
    annotations = read_migration_job(required.payload).annotations
    assert annotations["descheduler.koordinator.sh/required-node"] == "b"
    assert "descheduler.koordinator.sh/preferred-node" not in annotations
    nowhere = read_migration_job(request_of(move(""), ARGS, "d", "j").payload)
    assert nowhere.mode == "EvictDirectly"


def test_a_job_has_the_options_of_the_arguments() -> None:
    given = {"defaultJobTTL": "0s", "defaultDeleteOptions": {"gracePeriodSeconds": 5}}
    args = convert(given, MigrationControllerArgs)
    made = read_migration_job(request_of(move(), args, "d", "j").payload)
    assert (made.ttl, made.delete_options) == (None, {"gracePeriodSeconds": 5})
    assert made.deadline == made.created + 1800


def test_what_is_noted_when_a_job_begins() -> None:
    origin = JobOrigin("a", "uid-of-app", None, 3)
    patch = begin_patch(job(phase=""), "uid-p", origin)
    read = job(annotations=patch["metadata"]["annotations"], phase="")
    assert read.origin == origin
    assert begin_patch(job(ref={"namespace": "default", "name": "p"}), "u", origin)["spec"] == {
        "podRef": {"uid": "u"}
    }
    assert job(annotations={"descheduler.koordinator.sh/origin": "{"}, phase="").origin == (
        JobOrigin()
    )


def made(about: dict[str, Any] | None = None, **of_pod: Any) -> dict[str, Any]:
    return reservation_document(job(**(about or {})), pod("p", "a", **of_pod), NOW)


class TestReservation:
    def test_it_is_for_pods_of_the_controller_anywhere_else(self) -> None:
        found = made(annotations={"a": "b", "scheduling.koordinator.sh/resource-status": "{}"})
        assert found["metadata"]["name"] == "uid-j"
        assert found["metadata"]["ownerReferences"][0]["uid"] == "uid-j"
        assert found["metadata"]["labels"] == {
            "app.kubernetes.io/created-by": "koord-descheduler",
            "scheduling.koordinator.sh/reservation-order": str(int(NOW * 1000)),
        }
        spec = found["spec"]
        assert (spec["allocateOnce"], spec["ttl"]) == (True, "5m0s")
        (owner,) = spec["owners"]
        assert (owner["controller"]["uid"], owner["controller"]["namespace"]) == (
            "uid-of-app", "default"
        )  # fmt: skip
        template = spec["template"]
        assert template["metadata"] == {
            "name": "p", "namespace": "default", "labels": {"app": "app"}, "annotations": {"a": "b"}
        }  # fmt: skip
        assert "nodeName" not in template["spec"]
        affinity = template["spec"]["affinity"]["nodeAffinity"]
        assert affinity == {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [SKIPPED]}]}}

    def test_it_keeps_the_pods_own_affinity(self) -> None:
        terms = [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}, {"matchFields": []}]
        own = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}, PREFERRED: [{"weight": 1}]}}
        about = {"annotations": {"descheduler.koordinator.sh/preferred-node": "b"}}
        found = made(about, spec={"affinity": own})["spec"]["template"]["spec"]["affinity"]
        affinity = found["nodeAffinity"]
        assert [term["matchFields"] for term in affinity[REQUIRED]["nodeSelectorTerms"]] == [
            [SKIPPED], [SKIPPED]
        ]  # fmt: skip
        assert [term["weight"] for term in affinity[PREFERRED]] == [1, 100]
        assert terms[1] == {"matchFields": []}, "the pod's document stays as it is"

    def test_a_required_node_is_the_only_one(self) -> None:
        about = {"annotations": {"descheduler.koordinator.sh/required-node": "b"}}
        affinity = made(about)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        ((term,),) = (affinity[REQUIRED]["nodeSelectorTerms"],)
        assert [(one["operator"], one["values"]) for one in term["matchFields"]] == [
            ("NotIn", ["a"]), ("In", ["b"])
        ]  # fmt: skip

    def test_a_pod_that_waits_takes_it_itself(self) -> None:
        waits = {"conditions": [{"type": "PodScheduled", "status": "False"}], "phase": "Pending"}
        document = pod("p", status=waits)
        found = reservation_document(job(), document, NOW)["spec"]
        assert [owner["object"]["uid"] for owner in found["owners"]] == ["uid-p"]
        assert "affinity" not in found["template"]["spec"]

    def test_what_the_job_says_comes_first(self) -> None:
        given = {
            "metadata": {"name": "mine", "labels": {"a": "b"}},
            "spec": {
                "owners": [{"labelSelector": {}}],
                "expires": "2030-01-01T00:00:00Z",
                "template": {"spec": {"nodeName": "a", "containers": []}},
            },
        }
        found = made({"reservationOptions": {"template": given}})
        assert (found["metadata"]["name"], found["metadata"]["labels"]["a"]) == ("mine", "b")
        assert found["spec"]["owners"] == [{"labelSelector": {}}]
        assert "ttl" not in found["spec"]
        assert "nodeName" not in found["spec"]["template"]["spec"]

    def test_nobody_could_take_that_of_a_bare_pod(self) -> None:
        with pytest.raises(ValueError, match="use mode EvictDirectly"):
            made(owner=None)


def test_a_notice_to_the_owner_of_a_pod() -> None:
    about = job(
        annotations={"koordinator.sh/evict-trigger": "LowNodeLoad"},
        deleteOptions={"gracePeriodSeconds": 5},
    )
    (written,) = soft_eviction(about, NOW).values()
    assert json.loads(written) == {
        "timestamp": "2023-11-14T22:13:20Z",
        "initiator": "LowNodeLoad",
        "reason": "LowNodeLoad",
        "job": {"name": "j", "uid": "uid-j"},
        "deleteOptions": {"gracePeriodSeconds": 5},
    }
