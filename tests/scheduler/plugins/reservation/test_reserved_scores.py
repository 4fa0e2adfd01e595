"""For pods that may use reservations, answers are as if these were not there."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_model.label_selector import parse
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.held_scores import class_scores
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.row_scores import SharedScores
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import PodInfo, read_pod
from koord_scheduler.plugin import HeldRoom, Plugin
from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.matching_reservations import MatchingReservations
from koord_scheduler.plugins.reservation.owners import OwnerMatcher
from koord_scheduler.plugins.reservation.pod_parts import RESERVATION
from koord_scheduler.plugins.reservation.reservation import Reservation
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pod import placed_usage
from koord_scheduler.state.pod_class import PodClass, pod_class
from koord_scheduler.state.pod_usage import PodUsage

from tests.support.clusters import random_cluster
from tests.support.clusters.workloads import owned
from tests.support.prepared import prepared
from tests.support.scheduler_profile import default_plugins
from tests.support.workloads import LIST_DEFAULTS


class HoldingPlugin(Plugin):
    """Lets pods use the room of reservations, and says nothing of nodes itself."""

    name = "Holding"
    reads_labels = False

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(ReservationColumns)

    def held_room(self, pod: PodClass, nodes: ClusterState) -> HeldRoom:
        return MatchingReservations(pod, nodes)


RESERVATION_PLUGIN = EnabledPlugin(HoldingPlugin(), weight=0)
PLUGINS = [
    [*default_plugins(args), RESERVATION_PLUGIN]
    for args in ({}, {"PodTopologySpread": LIST_DEFAULTS})
]
NOBODY = OwnerMatcher(selector=parse({"matchLabels": {"nobody": "x"}}, ""))
CHANGES = ["node", "pod", "pod", "no pod", "reservation", "reservation", "no reservation"]


def pod(document: dict[str, Any]) -> PodInfo:
    return read_pod(json.dumps(document).encode())


class Life:
    """A cluster in which nodes, pods and reservations come and go."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        both = random_cluster(rng), random_cluster(rng)
        self.nodes = [one for cluster in both for one in cluster["nodes"]]
        self.pods = [pod(one) for cluster in both for one in cluster["pods"]]
        self.plugins = rng.choice(PLUGINS)
        self.columns = self.new_columns()
        self.waiting = [
            pod_class(pod(owned(rng, cluster["pod"])), self.columns.features.values())
            for cluster in both
        ]
        shared = SharedScores(self.columns, self.plugins)
        self.kept = [class_scores(one, self.columns, self.plugins, shared) for one in self.waiting]
        self.there: dict[str, dict[str, Any]] = {}
        self.placed: list[tuple[str, PodUsage]] = []
        self.reservations: dict[str, Reservation] = {}

    def new_columns(self) -> ClusterState:
        columns = ClusterState(length=2)
        for one in self.plugins:
            one.plugin.prepare(columns)
        return columns

    def change(self) -> None:
        columns, rng = self.columns, self.rng
        match rng.choice(CHANGES):
            case "node":
                node = rng.choice(self.nodes)
                columns.set(read_node(json.dumps(node).encode()))
                self.there[node["metadata"]["name"]] = node
            case "pod" if self.pods:
                chosen = rng.choice(self.pods)
                uid = rng.choice(["", "a", "b", "c"])
                usage = placed_usage(chosen, columns).with_part(RESERVATION, uid)
                self.placed.append((chosen.spec.node_name, usage))
                columns.add_pod(chosen.spec.node_name, usage)
            case "no pod" if self.placed:
                columns.remove_pod(*self.placed.pop(rng.randrange(len(self.placed))))
            case "reservation" if self.pods:
                chosen, name = rng.choice(self.pods), rng.choice("abc")
                one = Reservation(
                    name,
                    name,
                    rng.choice(["Available", "Available", "Waiting"]),
                    chosen.spec.node_name,
                    allocate_once=rng.random() < 0.3,
                    matchers=(rng.choice([OwnerMatcher(), NOBODY]),),
                )
                columns.use(ReservationColumns).set(one, placed_usage(chosen, columns))
                self.reservations[name] = one
            case "no reservation" if self.reservations:
                name = rng.choice(sorted(self.reservations))
                del self.reservations[name]
                columns.use(ReservationColumns).remove(name)

    def naive(self) -> ClusterState:
        """Columns of the same nodes and pods; what is left of other reservations are pods."""
        made = self.new_columns()
        for node in self.there.values():
            made.set(read_node(json.dumps(node).encode()))
        for node_name, usage in self.placed:
            made.add_pod(node_name, usage.with_part(RESERVATION, ""))
        for name, one in self.reservations.items():
            held = self.columns.use(ReservationColumns).held(name)
            is_for_them = one.phase == "Available" and NOBODY not in one.matchers
            if held is not None and not is_for_them:
                made.add_pod(one.node, held)
        return made


def answers(scores: ClassScores) -> tuple[dict[str, float], str, dict[str, list[str]]]:
    nodes, rows = scores.nodes, scores.feasible()
    names = [nodes.name(row) for row in rows.tolist()]
    best = scores.best(rows)
    all_rows = np.flatnonzero(nodes.is_node).tolist()
    assert all(scores.rejects(row) is bool(scores.rejections(row)) for row in all_rows)
    return (
        dict(zip(names, scores.totals(rows).tolist(), strict=True)),
        nodes.name(best) if best is not None else "",
        {nodes.name(row): scores.rejections(row) for row in all_rows},
    )


@given(st.integers(0, 1 << 32))
def test_answers_are_those_without_the_reservations(seed: int) -> None:
    life = Life(Random(seed))
    for _ in range(25):
        life.change()
        before = life.columns.resources.requested.copy()
        for kept, waiting in zip(life.kept, life.waiting, strict=True):
            found = answers(kept)
            assert found == answers(ClassScores(waiting, life.naive(), life.plugins))
            assert found == answers(class_scores(waiting, life.columns, life.plugins))
        assert np.array_equal(life.columns.resources.requested, before)


def test_a_reservation_does_not_keep_its_own_pods_from_a_node() -> None:
    columns = prepared(PLUGINS[0])
    for name in ("n1", "n2"):
        amounts = {"cpu": "8", "memory": "8Gi", "pods": "9"}
        labels = {"kubernetes.io/hostname": name}
        node = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts}}
        columns.set(read_node(json.dumps(node).encode()))
    spread = {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    metadata = {"name": "p", "namespace": "d", "labels": {"app": "web"}}
    web = pod({"metadata": metadata, "spec": {"topologySpreadConstraints": [spread]}})
    waiting = pod_class(web, columns.features.values())
    scores = class_scores(waiting, columns, PLUGINS[0])
    for matcher, are_equal in ((NOBODY, False), (OwnerMatcher(), True)):
        one = Reservation("r", "u", "Available", "n1", matchers=(matcher,))
        columns.use(ReservationColumns).set(one, placed_usage(web, columns))
        first, second = scores.totals(scores.feasible()).tolist()
        assert (first == second) is are_equal
