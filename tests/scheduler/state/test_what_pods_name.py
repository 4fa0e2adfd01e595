"""What pods and nodes name, and name no more, is given back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_scheduler.config.scheduler_config import default_scheduler_config
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.framework.score_cache import ScoreCache
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.objects.node import read_node
from koord_scheduler.state import cluster_state as nodes
from koord_scheduler.state import labels
from koord_scheduler.state.coded_sets import SetColumn
from koord_scheduler.state.pod_counts import PodCounts
from koord_scheduler.state.pod_reader import PodReader

from tests.support.reachable import Holdings

HOST = "kubernetes.io/hostname"


def naming(number: int, node: str = "") -> dict[str, Any]:
    """A pod that names what nobody else does."""
    own, of_node = f"example.com/{number}", f"example.com/{number // 2}"
    selector = {"matchLabels": {own: "v"}}
    expression = {"key": HOST, "operator": "NotIn", "values": [f"a{number}", f"b{number}"]}
    terms = [{"matchExpressions": [expression]}]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    near = {"labelSelector": selector, "topologyKey": own}
    affinity = {
        "nodeAffinity": {required: {"nodeSelectorTerms": terms}},
        "podAntiAffinity": {required: [near]},
        "podAffinity": {preferred: [{"weight": 1, "podAffinityTerm": near}]},
    }
    container = {
        "name": "c",
        "image": own,
        "resources": {"requests": {own: "1", "cpu": "1m"}},
        "ports": [{"hostPort": 1 + number, "containerPort": 80}],
    }
    spread = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **near}
    spec = {
        "containers": [container],
        "affinity": affinity,
        "topologySpreadConstraints": [spread],
        "tolerations": [{"key": own, "operator": "Exists"}],
        "nodeSelector": {} if number % 4 else {own: "v", of_node: "v", "changing": "v"},
        "nodeName": node,
    }
    name = f"p{number}"
    metadata = {"name": name, "namespace": "shop", "uid": name, "labels": {own: "v"}}
    return {"metadata": metadata, "spec": spec}


def node_document(number: int, turn: int = -1) -> dict[str, Any]:
    own, name = f"example.com/{turn}", f"n{number}"
    more = {own: "v", "changing": own} if turn >= 0 else {}
    taints = [{"key": own, "effect": "PreferNoSchedule"}] if turn >= 0 else []
    allocatable = {"cpu": "8", "pods": "110", **({own: "1"} if turn >= 0 else {})}
    return {
        "metadata": {"name": name, "labels": {HOST: name, **more}},
        "spec": {"taints": taints},
        "status": {"allocatable": allocatable, "images": [{"names": [own], "sizeBytes": 7}]},
    }


class Churn:
    """A small cluster whose pods, and one of whose nodes, name other things each turn."""

    def __init__(self) -> None:
        profiles = [one.guarded() for one in default_scheduler_config().profiles]
        self.scheduler = Scheduler(profiles)
        self.columns = self.scheduler.nodes
        # What is kept for a while is kept for less.
        self.columns.pods = PodCounts(len(self.columns), most_bytes=20 * 8 * len(self.columns))
        by_name = {one.scheduler_name: one for one in profiles}
        self.scheduler._scores = ScoreCache(self.columns, by_name, most_bytes=1)
        self.reader = PodReader(self.columns)
        # What holds all that waits.
        self.columns.stand_ins = None
        del self.columns.features[Gangs]
        for number in range(5):
            self.columns.set(read_node(json.dumps(node_document(number)).encode()))

    def turn(self, number: int, *, changes_node: bool) -> None:
        scheduler = self.scheduler
        if changes_node:
            self.columns.set(read_node(json.dumps(node_document(0, number)).encode()))
        for place, node in enumerate(("", "n1")):
            document = json.dumps(naming(2 * number + place, node)).encode()
            scheduler.set_pod(self.reader.read(document), 0.0)
        while scheduler.decide(0.0) is not None:
            pass
        for place in range(2):
            scheduler.remove_pod(f"shop/p{2 * number + place}")


@pytest.mark.parametrize("changes_node", [True, False])
def test_what_is_named_no_more_is_given_back(
    monkeypatch: pytest.MonkeyPatch, *, changes_node: bool
) -> None:
    monkeypatch.setattr(nodes, "_MOST_BYTES_OF_DOMAINS", 20_000)
    monkeypatch.setattr(labels, "_MOST_TABLE_BYTES", 20_000)
    churn = Churn()
    for number in range(350):
        churn.turn(number, changes_node=changes_node)
    early = Holdings(churn.columns)
    for number in range(350, 700):
        churn.turn(number, changes_node=changes_node)
    late = Holdings(churn.columns)
    grown = early.grown(late, more=20)
    assert grown == []
    assert late.bytes < 1.1 * early.bytes


def test_sets_that_no_node_has_are_given_back() -> None:
    column = SetColumn[str](4)
    for number in range(2000):
        assert column.set(number % 4, [f"s{number}"])
        assert not column.set(number % 4, [f"s{number}"])
        for row in range(4):
            latest = number - (number - row) % 4
            assert column.of(row) == ((f"s{latest}",) if latest >= 0 else ())
    assert len(column.sets) < 1000
