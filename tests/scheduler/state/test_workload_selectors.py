"""What is known of Services and controllers is what their last objects say."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from koord_model.label_selector import LabelSelector
from koord_scheduler.state.pod_labels import pod_labels
from koord_scheduler.state.workload_selectors import WorkloadReference, WorkloadSelectors

from tests.support.clusters import selectors
from tests.support.clusters.workloads import NAMES, selector_of
from tests.support.workloads import READERS, read_workload

KINDS = [kind for kind, _ in READERS.values()]


def random_selector(rng: Random, plural: str) -> LabelSelector:
    document = {"spec": {"selector": selector_of(rng, plural, selectors.pod_labels(rng))}}
    return read_workload(plural, document)


@given(st.integers(0, 1 << 32))
def test_selectors_are_those_of_the_workloads_that_are_there(seed: int) -> None:
    rng, workloads = Random(seed), WorkloadSelectors()
    there: dict[WorkloadReference, LabelSelector] = {}
    pods = [
        (pod_labels(namespace, selectors.pod_labels(rng)), WorkloadReference(kind, "a/w1"))
        for namespace, kind in [("a", KINDS[1]), ("a", KINDS[2]), ("a", KINDS[3]), ("b", "")]
    ]
    for _ in range(30):
        before = workloads.version, [workloads.selector(*pod) for pod in pods]
        plural = rng.choice(["services", *READERS])
        one = WorkloadReference(READERS[plural][0], f"{rng.choice('ab')}/{rng.choice(NAMES)}")
        if one in there and rng.random() < 0.5:
            del there[one]
            workloads.remove(*one)
        else:
            there[one] = random_selector(rng, plural)
            workloads.set(*one, there[one])
        fresh = WorkloadSelectors()
        for other in rng.sample(sorted(there), len(there)):
            fresh.set(*other, there[other])
        found = [workloads.selector(*pod) for pod in pods]
        assert found == [fresh.selector(*pod) for pod in pods]
        assert (workloads.version != before[0]) or found == before[1]
    for one in there:
        workloads.remove(*one)
    assert {**vars(workloads), "version": 0} == vars(WorkloadSelectors())


def test_what_is_said_again_changes_nothing() -> None:
    workloads = WorkloadSelectors()
    workloads.set(
        "Service", "a/web", read_workload("services", {"spec": {"selector": {"app": "web"}}})
    )
    version = workloads.version
    workloads.set(
        "Service", "a/web", read_workload("services", {"spec": {"selector": {"app": "web"}}})
    )
    assert workloads.version == version
