"""What is kept of the usage of nodes is what it would be anew, whatever changes and when."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.priority import PriorityClass
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.self_check import ROUND_SECONDS, SelfCheck
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.objects.pod_times import PodTimes
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.plugins.load_aware.args import LoadAwareSchedulingArgs
from koord_scheduler.plugins.load_aware.columns import NodeLoads
from koord_scheduler.plugins.load_aware.load_table import LoadTable
from koord_scheduler.plugins.load_aware.node_metric import NodeReport, ReportedPod, read_node_metric
from koord_scheduler.plugins.load_aware.plugin import LoadAwareScheduling
from koord_scheduler.plugins.load_aware.pod_load import LOAD, AskedAmount, PodLoad
from koord_scheduler.plugins.load_aware.row_load import row_load
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods
from koord_scheduler.state.pod_class import pod_class
from koord_scheduler.state.pod_labels import pod_labels
from koord_scheduler.state.pod_parts import PodParts
from koord_scheduler.state.pod_reader import PodReader
from koord_scheduler.state.pod_usage import PlacedPod

from tests.support.clusters.loads import (
    NOW,
    WRONG,
    random_assigned,
    random_load_args,
    random_load_node,
    random_load_pod,
    random_metric,
)

NAMES = ["n0", "n1", "n2", "n3"]


def as_json(document: Any) -> bytes:
    return msgspec.json.encode(document)


def random_plugin(rng: Random) -> LoadAwareScheduling:
    args = random_load_args(rng)
    while any(args.get(name) == wrong[name] for wrong in WRONG for name in wrong):
        args = random_load_args(rng)
    return LoadAwareScheduling(msgspec.convert(args, LoadAwareSchedulingArgs).settings())


class Life:
    """A cluster whose nodes, pods and reports come and go, in time."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.columns = ClusterState(length=2)
        self.plugins = [EnabledPlugin(random_plugin(rng)) for _ in range(2)]
        for one in self.plugins:
            one.plugin.prepare(self.columns)
        self.placed = PlacedPods(self.columns)
        self.reader = PodReader(self.columns)
        self.assigned = [random_assigned(rng, number, rng.choice(NAMES)) for number in range(8)]
        self.waiting = [
            pod_class(read_pod(as_json(random_load_pod(rng, "w"))), self.columns.features.values())
            for _ in range(3)
        ]
        self.kept = [ClassScores(one, self.columns, self.plugins) for one in self.waiting]
        self.epoch = float(NOW)

    def change(self) -> None:
        rng, columns, loads = self.rng, self.columns, self.columns.use(NodeLoads)
        name = rng.choice(NAMES)
        match rng.choice(
            ["node", "gone", "report", "report", "pod", "pod", "end", "times", "time"]
        ):
            case "node":
                columns.set(read_node(as_json(random_load_node(rng, name))))
            case "gone" if name in [one.name for one in loads.nodes.values()]:
                columns.remove(name)
            case "report":
                metric = random_metric(rng, name, self.assigned)
                loads.set_report(name, read_node_metric(as_json(metric)))
                if rng.random() < 0.2:
                    loads.remove_report(name)
            case "pod":
                self.place(self.rng.choice(self.assigned))
            case "end" if self.placed.by_key:
                self.placed.remove(rng.choice(sorted(self.placed.by_key)))
            case "times" if self.placed.by_key:
                pod = self.placed.by_key[rng.choice(sorted(self.placed.by_key))]
                since = NOW - rng.choice([0, 60, 500])
                self.placed.set(
                    pod._replace(times=PodTimes(since, rng.choice([None, since + 30.0])))
                )
            case "time":
                self.epoch += rng.choice([1, 20, 60, 200, -90])
                loads.set_epoch(self.epoch)

    def place(self, document: dict[str, Any]) -> None:
        one = self.reader.read(as_json(document))
        self.placed.set(
            PlacedPod(one.key, one.uid, one.node, one.priority, None, one.usage, times=one.times)
        )


def column(table: LoadTable, row: int) -> list[object]:
    return [
        table.sums[:, row].tolist(),
        table.limits[:, row].tolist(),
        table.capacity[:, row].tolist(),
        table.aggregated[:, row].tolist(),
        table.scored[:, row].tolist(),
    ]


@given(st.integers(0, 1 << 32))
def test_kept_rows_are_fresh_ones(seed: int) -> None:
    life = Life(Random(seed))
    loads = life.columns.use(NodeLoads)
    for _ in range(40):
        life.change()
        for (row, node), table in itertools.product(loads.nodes.items(), loads.tables.values()):
            report, pods = loads.reports.get(node.name), loads.assigned_on(row)
            fresh = row_load(table.estimator, node, report, pods, loads.epoch)
            assert column(table, row) == [
                fresh.sums,
                fresh.limits,
                list(fresh.capacity),
                list(fresh.aggregated),
                [amount if fresh.is_scored else 0 for amount in fresh.capacity],
            ]
        for kept, waiting in zip(life.kept, life.waiting, strict=True):
            fresh_scores = ClassScores(waiting, life.columns, life.plugins)
            rows = fresh_scores.feasible()
            assert kept.feasible().tolist() == rows.tolist()
            assert kept.totals(rows).tolist() == fresh_scores.totals(rows).tolist()


PLUGIN = LoadAwareScheduling(LoadAwareSchedulingArgs().settings())


def small_cluster() -> ClusterState:
    columns = ClusterState()
    PLUGIN.prepare(columns)
    for name in NAMES:
        document = {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "10"}}}
        columns.set(read_node(as_json(document)))
    return columns


def test_a_report_touches_the_row_of_its_node_alone() -> None:
    columns = small_cluster()
    position = columns.journal.position
    columns.use(NodeLoads).set_report("n2", NodeReport(updated=100.0, usage={"cpu": 5000}))
    columns.use(NodeLoads).set_report("elsewhere", NodeReport(updated=100.0, usage={"cpu": 5000}))
    changed = columns.journal.changed_since(position)
    assert changed is not None
    assert changed.tolist() == [columns.row("n2")]


def test_a_report_that_becomes_too_old_touches_its_row_once() -> None:
    columns = small_cluster()
    loads = columns.use(NodeLoads)
    for number, name in enumerate(NAMES):
        loads.set_report(name, NodeReport(updated=100.0 + number, usage={"cpu": 5000}))
    position = columns.journal.position
    for epoch in (101.0, 279.9, 280.0, 280.5, 281.9):
        loads.set_epoch(epoch)
    changed = columns.journal.changed_since(position)
    assert changed is not None
    assert changed.tolist() == sorted([columns.row("n0"), columns.row("n1")])
    assert columns.journal.position == position + 2


def test_a_row_is_touched_where_it_matters_when_a_pod_got_its_node() -> None:
    columns = small_cluster()
    placed, load = PlacedPods(columns), PodLoad(PriorityClass.PROD, (AskedAmount("cpu", 1000, 0),))
    usage = columns.usage(
        PodRequests({"cpu": 1000}, 1000, 0), (), pod_labels("d", {}), parts=PodParts([(LOAD, load)])
    )
    pod = PlacedPod("d/a", "1", "n2", 0, None, usage, times=PodTimes(1000.0))
    placed.set(pod)
    reported = {"d/a": ReportedPod({"cpu": 100}, is_prod=True)}
    columns.use(NodeLoads).set_report("n2", NodeReport(1030.0, usage={"cpu": 100}, pods=reported))
    [table] = columns.use(NodeLoads).tables.values()
    touched = []
    for scheduled in (1001.0, 900.0, 901.0):  # it was reported for 60 s, or less
        position = columns.journal.position
        placed.set(pod._replace(times=PodTimes(scheduled)))
        touched.append((columns.journal.position - position, table.sums[0, columns.row("n2")]))
    assert touched == [(0, 850), (1, 100), (0, 100)]


def test_nothing_is_kept_where_nobody_asks() -> None:
    columns = ClusterState()
    columns.set(read_node(b'{"metadata": {"name": "n1"}}'))
    assert columns.find(NodeLoads) is None
    usage = PodReader(columns).read(as_json(random_assigned(Random(1), 1, "n1"))).usage
    assert usage.of(LOAD).amounts == ()


def test_usage_is_rounded_before_it_is_compared() -> None:
    columns = small_cluster()  # of 10 cores, of which 65.5 % are 66 %
    columns.use(NodeLoads).set_report("n2", NodeReport(updated=100.0, usage={"cpu": 5000}))
    [table] = columns.use(NodeLoads).tables.values()
    assert table.limits[0, columns.row("n2")] == 6549


def test_a_wrong_sum_is_repaired() -> None:
    columns = small_cluster()
    columns.use(NodeLoads).set_report("n2", NodeReport(updated=100.0, usage={"cpu": 5000}))
    check, row = SelfCheck(columns, PlacedPods(columns)), columns.row("n2")
    [table] = columns.use(NodeLoads).tables.values()
    assert row is not None
    table.sums[0, row] += 1
    position = columns.journal.position
    found = [name for _ in range(ROUND_SECONDS) for name in check.check_some()]
    assert found == ["n2"]
    assert table.sums[0, row] == 5000
    assert columns.journal.position == position + 1


@pytest.mark.parametrize("annotation", ["raw-allocatable", "usage-thresholds"])
def test_an_annotation_that_cannot_be_read_is_said_once(annotation: str) -> None:
    columns = small_cluster()
    domain = "node" if annotation == "raw-allocatable" else "scheduling"
    key = f"{domain}.koordinator.sh/{annotation}"
    for cpu in ("10", "11"):
        metadata = {"name": "n1", "annotations": {key: "{"}}
        document = {"metadata": metadata, "status": {"allocatable": {"cpu": cpu}}}
        columns.set(read_node(as_json(document)))
    [line] = columns.use(NodeLoads).take_warnings()
    assert line.startswith(f"node n1: annotation {key}: ")
    assert columns.use(NodeLoads).take_warnings() == []
