"""Jobs and Reservations as they are read, and what follows from them."""

from __future__ import annotations

import json

import pytest
from koord_descheduler.migration.core.job import JobOrigin, PodReference, read_migration_job
from koord_descheduler.migration.core.job_reservation import read_job_reservation
from koord_descheduler.objects.observed_pod import WorkloadName

from tests.descheduler.clusters import NOW
from tests.descheduler.migration.jobs import job, job_document

EVICTED = ("Eviction", "True", "EvictComplete")


def test_a_pod_that_is_gone_counts_as_it_was() -> None:
    workload = WorkloadName("apps/v1", "Deployment", "default", "web")
    pod = JobOrigin("a", "uid-of-set", workload).pod(PodReference("default", "p", "uid-p"))
    assert (pod.key, pod.uid, pod.node, pod.owner) == ("default/p", "uid-p", "a", "uid-of-set")
    assert pod.template.workload == workload
    assert JobOrigin("a").pod(PodReference("default", "p")).template.workload is None


def test_the_time_of_an_eviction_is_that_of_its_decision() -> None:
    assert job().eviction_began is None
    document = job_document(conditions=[EVICTED])
    (condition,) = document["status"]["conditions"]

    def began() -> float | None:
        return read_migration_job(json.dumps(document).encode()).eviction_began

    assert began() == NOW - 5
    condition["lastProbeTime"] = "2023-11-14T22:13:00Z"
    assert began() == NOW - 20
    del condition["lastProbeTime"], condition["lastTransitionTime"]
    assert began() == job().created


def test_a_job_has_its_time_whatever_it_says() -> None:
    assert job(ttl="1m").deadline == job().created + 60
    assert job(ttl=None).deadline == job(ttl="0s").deadline == job().created + 1800
    assert job(ttl="1m").kept_until == job().created + 360


@pytest.mark.parametrize("text", ["[]", '{"spec": {"ttl": "soon"}}'])
def test_what_is_no_job(text: str) -> None:
    with pytest.raises(ValueError, match=r"PodMigrationJob|duration"):
        read_migration_job(text.encode())


def test_a_reservation_is_for_a_pod_by_its_name_alone() -> None:
    owner = {"object": {"namespace": "default", "name": "p"}}
    reference = PodReference("default", "p")
    for owners, expected in (
        ([owner], True),
        ([{**owner, "labelSelector": {}}], False),
        ([{"object": {"namespace": "default", "name": "q"}}], False),
        ([{"controller": {"name": "p"}}], False),
    ):
        document = {"metadata": {"name": "r"}, "spec": {"owners": owners}}
        found = read_job_reservation(json.dumps(document).encode())
        assert found.is_for_pod(reference) is expected
