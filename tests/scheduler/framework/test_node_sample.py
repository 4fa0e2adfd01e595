"""A class that was never seen is tried on some nodes of a large cluster, and then on all."""

from __future__ import annotations

import json
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.node_sample import FEWEST, LARGE, NodeSampler, sample_size
from koord_scheduler.framework.nominations import Nomination
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.scheduler import OnFiltered, Scheduler
from koord_scheduler.objects.metadata import AnnotatedMeta
from koord_scheduler.objects.node import Node
from koord_scheduler.plugin import Filter, Plugin
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_reader import PodReader

NUMBER = LARGE + 1
SIZE = sample_size(NUMBER)


class LastRows(Plugin):
    """Lets pods run in the last ``number`` rows, and counts the rows that it is asked about."""

    name: ClassVar[str] = "LastRows"

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked = 0

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        def can_run(rows: Rows) -> Mask:
            self.asked += len(rows)
            return rows >= NUMBER - self.number

        return can_run


@cache
def columns() -> ClusterState:
    made = ClusterState()
    for number in range(NUMBER):
        made.set(Node(AnnotatedMeta(name=f"n{number}")))
    return made


def asked(
    plugin: LastRows,
    names: list[str],
    per_cent: int = 0,
    nominated: str = "",
    on_filtered: OnFiltered | None = None,
) -> list[int]:
    """How many rows were asked about for each of these pods; all get a node."""
    plugins = (EnabledPlugin(plugin, True, 0),)
    profile = Profile("default-scheduler", plugins, percentage_of_nodes_to_score=per_cent)
    scheduler, found = Scheduler([profile], nodes=columns()), []
    scheduler.on_filtered = on_filtered
    reader = PodReader(scheduler.nodes)
    for number, name in enumerate(names):
        metadata = {"name": f"p{number}", "namespace": "a", "uid": str(number)}
        document = {"metadata": {**metadata, "labels": {"app": name}}}
        pod = reader.read(json.dumps(document).encode())
        scheduler.set_pod(pod, 0.0)
        assert pod.waiting is not None
        if nominated:
            scheduler.nominations.set(Nomination(pod.key, nominated, 0, pod.waiting.usage))
        before = plugin.asked
        decision = scheduler.decide(0.0)
        assert isinstance(decision, Placement)
        assert int(decision.node[1:]) >= NUMBER - plugin.number
        assert not nominated or decision.node == nominated
        found.append(plugin.asked - before)
        scheduler.forget(decision.pod, 0.0)
        scheduler.remove_pod(pod.key)
    return found


def test_the_first_pod_of_a_class_has_some_nodes_to_choose_from_the_next_all() -> None:
    web, other = asked(LastRows(NUMBER), ["web", "db"]), asked(LastRows(NUMBER), ["web", "web"])
    assert web == [SIZE, SIZE]
    assert other == [SIZE, NUMBER]
    assert asked(LastRows(NUMBER), ["web"], per_cent=50) == [NUMBER // 2]
    assert asked(LastRows(NUMBER), ["web"], per_cent=100) == [NUMBER]


def test_where_few_of_them_fit_all_nodes_are_looked_at() -> None:
    few = FEWEST // 2
    [number] = asked(LastRows(few), ["web"])
    assert number == SIZE + NUMBER


def test_a_pod_gets_the_node_that_is_kept_for_it() -> None:
    assert asked(LastRows(NUMBER), ["web"], nominated="n7") == [NUMBER]


def test_who_wants_to_hear_where_a_pod_fits_hears_of_all_nodes() -> None:
    heard: list[int] = []
    asked(LastRows(7), ["web"], on_filtered=lambda _, __, rows: heard.append(len(rows)))
    assert heard == [7]
    assert asked(LastRows(NUMBER), ["web"], on_filtered=lambda *_: None) == [NUMBER]


def test_each_sample_has_the_next_nodes_until_all_had_their_turn() -> None:
    sampler, seen = NodeSampler(columns()), []
    for _ in range(NUMBER // SIZE):
        rows = sampler.take(sampler.size(0))
        assert (np.diff(rows) > 0).all()
        seen += rows.tolist()
    assert len(seen) == len(set(seen)) == NUMBER // SIZE * SIZE


def test_samples_are_of_the_nodes_that_are_there() -> None:
    nodes = columns.__wrapped__()
    nodes.set(Node(AnnotatedMeta(name="more")))
    sampler = NodeSampler(nodes)
    sampler.take(sampler.size(0))
    gone = nodes.row("n7")
    nodes.remove("n7")
    seen = np.concatenate([sampler.take(sampler.size(0)) for _ in range(NUMBER // SIZE + 1)])
    assert gone not in seen
    nodes.remove("n8")
    assert not sampler.size(0)


@pytest.mark.parametrize(
    ("nodes", "per_cent", "enough"),
    # As kube-scheduler 1.36.2's numFeasibleNodesToFind.
    [
        (1, 0, 1),
        (1, 30, 1),
        (1, 100, 1),
        (100, 0, 100),
        (100, 30, 100),
        (100, 100, 100),
        (101, 0, 100),
        (101, 30, 100),
        (101, 100, 101),
        (300, 0, 144),
        (300, 30, 100),
        (300, 100, 300),
        (1000, 0, 420),
        (1000, 1, 100),
        (1000, 30, 300),
        (1000, 100, 1000),
        (5001, 0, 500),
        (5001, 30, 1500),
        (5001, 100, 5001),
        (5624, 0, 337),
        (5624, 30, 1687),
        (5624, 100, 5624),
        (5625, 0, 281),
        (5625, 30, 1687),
        (5625, 100, 5625),
        (20000, 0, 1000),
        (20000, 1, 200),
        (20000, 30, 6000),
        (20000, 100, 20000),
    ],
)
def test_a_sample_is_as_large_as_kubernetes_has_it(nodes: int, per_cent: int, enough: int) -> None:
    assert sample_size(nodes, per_cent) == enough
