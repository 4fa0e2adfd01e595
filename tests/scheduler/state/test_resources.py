"""Resources have columns while nodes have some of them, whatever pods ask for."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.state.resources import ALWAYS, NOWHERE, PODS, ResourceColumns
from koord_scheduler.state.room import RoomColumns

from tests.support.reservations import ReservationCluster

NAMES = [*ALWAYS, PODS, *(f"example.com/r{number}" for number in range(40))]
ROWS = 4
ALL_ROWS = np.arange(ROWS)
EACH_ROW = [np.array([row]) for row in range(ROWS)]


@given(st.integers(0, 1 << 32))
def test_columns_are_of_what_nodes_have(seed: int) -> None:
    rng = Random(seed)
    resources, kept = ResourceColumns(ROWS), NAMES[4:7]
    columns = resources.columns(kept)
    has: list[dict[str, int]] = [{} for _ in range(ROWS)]
    asked: list[Counter[str]] = [Counter() for _ in range(ROWS)]
    for _ in range(60):
        row = rng.randrange(ROWS)
        some = {name: rng.randint(0, 4) for name in rng.sample(NAMES, rng.randrange(20))}
        if rng.random() < 0.4:
            resources.set_allocatable(row, some)
            has[row] = some
        else:
            sign = -1 if rng.random() < 0.3 else 1
            scored = float(some.get("cpu", 0)), float(some.get("memory", 0))
            resources.add(row, resources.request(some), scored, sign)
            for name, amount in some.items():
                asked[row][name] += sign * amount
        for name in NAMES:
            column = resources.column(name)
            found = resources.allocatable[column].tolist()
            assert found == [one.get(name, 0) for one in has]
            assert [resources.asked_of(name, one) for one in range(ROWS)] == [
                one[name] for one in asked
            ]
            if column != NOWHERE:
                assert resources.requested[column].tolist() == [one[name] for one in asked]
        assert not resources.requested[NOWHERE].any()
        assert columns.now.tolist() == [resources.column(name) for name in kept]
        assert columns.listed == columns.now.tolist()
        if rng.random() < 0.5:
            check_room(resources)
    for row in range(ROWS):
        resources.set_allocatable(row, {})
        resources.add(row, resources.request(asked[row]), (0.0, 0.0), -1)
    assert not resources.requested.any()
    assert not resources.allocatable.any()
    assert not any(resources.asked_on(0).values())


def check_room(resources: ResourceColumns) -> None:
    """Columns that are kept up to date equal new ones, also of rows that were asked about last."""
    kept = resources.room()
    fresh = RoomColumns(resources.allocatable, resources.requested, resources.scored)
    assert kept.free.tolist() == fresh.free.tolist()
    for rows in (ALL_ROWS, *EACH_ROW, ALL_ROWS):
        for name, values in kept.of(rows)._asdict().items():
            assert np.array_equal(values, getattr(fresh.of(rows), name)), name


def test_columns_of_what_no_node_has_are_given_back() -> None:
    resources = ResourceColumns(ROWS)
    for number in range(1000):
        resources.set_allocatable(0, {"cpu": 1, f"example.com/{number}": 1})
        resources.add(1, resources.request({f"example.com/{number}": 1}), (0.0, 0.0))
    assert len(resources.allocatable) < 50
    assert resources.asked_of("example.com/7", 1) == 1.0
    for number in range(1000):
        resources.add(1, resources.request({f"example.com/{number}": 1}), (0.0, 0.0), -1)
    assert resources.asked_on(1).keys() < {
        *ALWAYS,
        PODS,
        *(f"example.com/{n}" for n in range(1000)),
    }
    assert len(resources.asked_on(1)) < 50


def test_a_pod_gets_a_resource_that_a_node_has_later_and_columns_it_never_had() -> None:
    cluster = ReservationCluster("n1")
    columns, gpu = cluster.scheduler.nodes.resources, "example.com/gpu"

    def node(gpus: int) -> None:
        amounts = {"cpu": "8", "pods": "110", gpu: str(gpus)}
        status = {"allocatable": amounts}
        cluster.put("Node", "n1", {"metadata": {"name": "n1"}, "status": status})

    def pod(name: str, node: str = "", resource: str = gpu) -> None:
        requests = {"requests": {resource: "1"}}
        spec = {"containers": [{"name": "c", "resources": requests}], "nodeName": node}
        metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}"}
        cluster.put("Pod", f"shop/{name}", {"metadata": metadata, "spec": spec})

    pod("early", "n1")
    before = len(columns.names)
    for number in range(100):
        pod(f"p{number}", resource=f"example.com/{number}")
        assert "Insufficient example.com/" in cluster.message(cluster.decide())
    assert (len(columns.names), len(columns.allocatable)) == (before, before)
    cluster.scheduler.wake(0.5)
    assert set(cluster.scheduler._waker._columns.names) == {PODS, ""}
    for turn in range(2):
        pod(f"waiting-{turn}")
        assert f"Insufficient {gpu}" in cluster.message(cluster.decide())
    cluster.scheduler.wake(0.7)
    node(2)
    cluster.scheduler.wake(1.0)
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    assert decision.pod.key == "shop/waiting-0"
    assert f"Insufficient {gpu}" in cluster.message(cluster.decide())
    node(3)
    cluster.scheduler.wake(2.0)
    assert isinstance(cluster.decide(), Placement)
