"""Echo of the configuration that it has applied."""

from __future__ import annotations

from koord_model import node_slo_document
from koord_model.node_slo import RolloutVersion
from koord_model.pod import Container, Pod
from koordlet.metric_cache.core.interface import TimeWindow
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metric_cache.ring_cache import RingCache
from koordlet.metrics_reporter.documents.rollout_echo import (
    RestartCounter,
    RolloutEcho,
    document,
)
from koordlet.states_informer.state.pod_inventory import PodRecord

APPLIED = RolloutVersion("offload", "ab12")


def pod(uid: str, *containers: str, best_effort: bool = False) -> PodRecord:
    group = "kubepods/besteffort" if best_effort else "kubepods/burstable"
    made = Pod(name=uid, namespace="shop", uid=uid, cgroup_parent=f"/{group}/pod{uid}")
    return PodRecord(made, {key: Container(made, "main", key) for key in containers})


def test_the_version_is_read_with_what_cannot_be_used() -> None:
    ours = {
        "rollout": {"entry": "offload", "version": "ab12"},
        "strategies": {"memory_offload": 3},
    }
    slo, problems = node_slo_document.parse({"spec": {"extensions": {"pykoord": ours}}})
    assert slo.rollout == RolloutVersion("offload", "ab12", problems[0])
    assert "memory_offload is 3" in problems[0]
    assert node_slo_document.parse({"spec": {}})[0].rollout is None


def test_services_wait_and_batch_pods_use() -> None:
    cache = RingCache(None, 0, print)
    pods = [pod("web"), pod("db"), pod("job", best_effort=True)]
    for at in (10.0, 20.0):
        cache.append(
            at,
            [
                Sample(Series("pod_psi", ("web", "cpu", "avg10", "some")), 8.0),
                Sample(Series("pod_psi", ("db", "cpu", "avg10", "some")), 4.0),
                Sample(Series("pod_psi", ("db", "io", "avg10", "some")), 5.0),
                Sample(Series("pod_psi", ("job", "cpu", "avg10", "some")), 90.0),
                Sample(Series("pod_cpu_sched_wait", ("web",)), 30.0),
                Sample(Series("pod_cpu_usage", ("web",)), 1.0),
                Sample(Series("pod_cpu_usage", ("job",)), 2.5),
            ],
        )
    echo = RolloutEcho(APPLIED, ("one\n",), evictions=3, restarts=1)
    assert document(echo, cache, TimeWindow(0.0, 30.0), pods) == {
        "entry": "offload",
        "version": "ab12",
        "problem": "one\n",
        "evictions": 3,
        "restarts": 1,
        "psi": 6.0,
        "schedWait": 30.0,
        "batchCores": 2.5,
    }
    blank = document(
        RolloutEcho(APPLIED, (), 0, 0), RingCache(None, 0, print), TimeWindow(0.0, 30.0), pods
    )
    assert blank.keys() == {"entry", "version", "evictions", "restarts"}


def test_a_container_that_runs_anew_was_restarted_and_a_new_pod_was_not() -> None:
    counter = RestartCounter()
    assert counter.look([pod("web", "c1")]) == 0
    assert counter.look([pod("web")]) == 0  # between two runs
    assert counter.look([pod("web", "c2"), pod("db", "d1")]) == 1
    assert counter.look([pod("db", "d2")]) == 2
    assert counter.look([pod("web", "c3"), pod("db", "d2")]) == 2
