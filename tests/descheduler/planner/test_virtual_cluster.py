"""Whatever is tried on the virtual cluster, with every plugin on, is as before once undone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from koord_descheduler.planner.cluster import ClusterModel, KnownPod
from koord_descheduler.planner.virtual_cluster import MoveTarget, VirtualCluster
from koord_model.times import rfc3339
from koord_scheduler.config.scheduler_config import read_scheduler_config, scheduler_config
from koord_scheduler.framework.self_check import SelfCheck
from koord_scheduler.plugins.coscheduling.gangs_document import gangs_document
from koord_scheduler.plugins.elastic_quota.columns import QuotaColumns
from koord_scheduler.plugins.elastic_quota.quota_metrics import quota_figures

from tests.descheduler.clusters import NOW, TestCluster, node, pod
from tests.support.assembled_scheduler import START, AssembledCluster
from tests.support.examples import fewer


def assembled(seed: int) -> AssembledCluster:
    """Nodes with devices, NUMA nodes and load, whose pods have something of each."""
    found = AssembledCluster(Random(seed))
    for name in ("n1", "n2", "n3", "n4"):
        found.node(name)
    for name in ("q1", "q2"):
        found.quota(name)
    for number in range(20):
        found.pods()
        if number % 5 == 0:
            found.reservation()
        while found.decide() is not None:
            pass
        for placement in tuple(found.binding.values()):
            found.bind(placement)
    for _ in range(5):
        found.change()
    return found


def model_of(cluster: AssembledCluster) -> ClusterModel:
    found = ClusterModel(scheduler_config(cluster.config))
    kinds = {kind.resource.kind: kind for kind in found.kinds(lambda: cluster.now)}
    for name, documents in cluster.documents.items():
        kind = kinds[name]
        for key, document in documents.items():
            kind.put(key, kind.read(json.dumps(document).encode()))
    found.scheduler.tick(cluster.now, START + cluster.now)
    return found


def placed(model: ClusterModel) -> list[KnownPod]:
    pods = (pod for pod in model.pods.values() if pod.view.node and not pod.view.has_ended)
    return sorted(pods, key=lambda pod: pod.view.key)


def answers(model: ClusterModel) -> dict[str, Any]:
    """All that the scheduler's state says: what is left, and where each pod would go."""
    scheduler, virtual = model.scheduler, VirtualCluster(model, model.scheduler.nodes.epoch)
    state = scheduler.nodes
    found: dict[str, Any] = {
        "requested": {
            state.name(row): state.resources.requested[:, row].tolist()
            for row in range(len(state))
            if state.is_node[row]
        },
        "gangs": gangs_document(scheduler),
        "queue": sorted(scheduler.queue.pods),
    }
    quotas = state.find(QuotaColumns)
    if quotas is not None:
        found["quotas"] = [
            (figures.quota.name, {kind: _not_zero(one) for kind, one in figures.fields.items()})
            for figures in quota_figures(quotas)
        ]
    for one in placed(model):
        virtual.take(one)
        where = virtual.place(one, may_stay=True)
        found[one.view.key] = where
        virtual.undo()
    return found


def _not_zero(amounts: Mapping[str, float]) -> dict[str, float]:
    return {name: amount for name, amount in amounts.items() if amount}


@settings(fewer(12), phases=(Phase.explicit, Phase.generate))
@given(seed=st.integers(0, 2**32))
def test_all_is_as_before(seed: int) -> None:
    cluster, rng = assembled(seed), Random(seed)
    model = model_of(cluster)
    before = answers(model)
    virtual = VirtualCluster(model, START + cluster.now)
    virtual.let_pending_in()
    moved = 0
    for one in rng.sample(placed(model), k=len(placed(model))):
        mark = virtual.mark()
        virtual.take(one)
        found = virtual.place(one, may_stay=rng.random() < 0.5)
        moved += isinstance(found, MoveTarget)
        if rng.random() < 0.3:
            virtual.undo(mark)
    virtual.undo()
    check = SelfCheck(model.scheduler.nodes, model.scheduler.placed)
    assert [name for _ in range(300) for name in check.check_some()] == []
    assert answers(model) == before
    assert answers(model_of(cluster)) == before, "a state that was never changed says the same"


def test_a_pod_that_moved_takes_its_devices_along() -> None:
    cluster = assembled(1)
    model = model_of(cluster)
    virtual = VirtualCluster(model, START + cluster.now)
    with_devices = [
        one for one in placed(model) if "device-allocated" in json.dumps(_raw(cluster, one))
    ]
    assert with_devices
    for one in with_devices:
        virtual.take(one)
    for one in with_devices:
        assert isinstance(virtual.place(one, may_stay=True), MoveTarget)
    virtual.undo()


def _raw(cluster: AssembledCluster, pod: KnownPod) -> Any:
    return cluster.documents["Pod"][pod.view.key]


@pytest.mark.parametrize("name", ["default-scheduler", "another"])
def test_pods_of_unknown_schedulers_are_placed_by_the_first_profile(name: str) -> None:
    cluster = TestCluster()
    cluster.put(node("a", unschedulable=True), node("b"))
    cluster.put(pod("p", "a", spec={"schedulerName": name}))
    virtual = VirtualCluster(cluster.cluster, NOW)
    one = cluster.cluster.pods["default/p"]
    virtual.take(one)
    found = virtual.place(one)
    assert isinstance(found, MoveTarget)
    assert found.node == "b"


QUARANTINE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: NodeQuarantine}]}}
"""


def test_nodes_in_quarantine_get_pods_again_when_their_time_has_come() -> None:
    cluster = TestCluster(read_scheduler_config(QUARANTINE))
    cluster.put(node("a"), node("b"), pod("p", "a"))
    (failures,) = (kind for kind in cluster.cluster.kinds(lambda: 0.0) if kind.field_selector)
    for number in range(3):
        status = {"phase": "Failed", "reason": "OutOfcpu", "startTime": rfc3339(NOW - 60)}
        rejected = pod(f"r{number}", "b", owner=f"o{number}", status=status)
        key = f"default/r{number}"
        failures.put(key, failures.read(json.dumps(rejected).encode()))
    moved = cluster.cluster.pods["default/p"]
    found = []
    for at in (NOW, NOW + 3600):
        virtual = VirtualCluster(cluster.cluster, at)
        virtual.take(moved)
        found.append(isinstance(virtual.place(moved), MoveTarget))
        virtual.undo()
    assert found == [False, True]
