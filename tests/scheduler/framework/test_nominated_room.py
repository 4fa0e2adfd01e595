"""The room beside nominated pods by limits is what asking all filters with these pods gives."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.nominated_room import NominatedRoom
from koord_scheduler.framework.nominations import Nomination, Nominations
from koord_scheduler.framework.rejected_beside import rejected_beside

from tests.scheduler.framework.test_nominated_pods import Cluster
from tests.scheduler.framework.test_preemption import WithoutLimits, enabled, state
from tests.scheduler.framework.test_scheduler import Cluster as ChangingCluster
from tests.support.clusters import random_preemption
from tests.support.full_cluster import FullCluster
from tests.support.scheduler_profile import default_plugins


def beside(cluster: FullCluster, seed: int) -> list[int]:
    """Where a pod fits beside nominated pods, some of which were placed pods before."""
    rng, nodes, nominations = Random(seed), cluster.nodes, Nominations()
    names = sorted(nodes.name(row) for row in range(len(nodes)) if nodes.is_node[row])[:3]
    for one in cluster.nominated:
        nominations.set(one)
    for key in sorted(cluster.placed.by_key):
        if rng.random() < 0.5:
            usage = cluster.placed.by_key[key].usage
            cluster.placed.remove(key)
            nominations.set(Nomination(key, rng.choice(names), 0, usage))
    rows = cluster.scores.feasible()
    before = state(cluster)
    least = min((one.priority for one in nominations), default=0)
    found = NominatedRoom(nodes, nominations).rows_beside("", least, cluster.scores, rows)
    assert state(cluster) == before
    return found.tolist()


@given(st.integers(0, 1 << 32))
def test_limits_say_what_filters_say(seed: int) -> None:
    rng = Random(seed)
    given_cluster = random_preemption(rng)
    plugins = [one.plugin for one in default_plugins()]
    chosen = rng.sample(plugins, rng.choice([1, 2, 3, 5, 10]))
    by_limits = FullCluster(given_cluster, enabled(chosen))
    by_filters = FullCluster(given_cluster, enabled([WithoutLimits(one) for one in chosen]))
    assert beside(by_limits, seed) == beside(by_filters, seed)


def naive(scores: ClassScores, key: str, priority: int, nominations: Nominations) -> list[int]:
    """Where a pod fits with the nominated pods of each node that it must respect."""
    found = []
    for row in scores.feasible().tolist():
        name, against = scores.nodes.name(row), nominations.against(key, priority)
        pods = [one.usage for one in against if one.node == name]
        if not pods or not rejected_beside(scores, row, pods):
            found.append(row)
    return found


@given(st.integers(0, 1 << 32))
def test_what_is_remembered_is_what_would_be_found_anew(seed: int) -> None:
    rng = Random(seed)
    cluster = ChangingCluster(rng, preempts=False)
    scheduler = cluster.scheduler
    for _ in range(50):
        cluster.change()
        waiting = list(scheduler.queue.pods.values())
        if waiting and cluster.there and rng.random() < 0.5:
            scheduler.nominate(rng.choice(waiting), rng.choice([*sorted(cluster.there), None]))
        if rng.random() < 0.3:
            scheduler.decide(cluster.now)
        for pod in list(scheduler.queue.pods.values())[:3]:
            fresh = cluster.fresh(pod)
            expected = naive(fresh, pod.key, pod.priority, scheduler.nominations)
            assert scheduler.fitting_rows(pod).tolist() == expected


@pytest.mark.parametrize(("held", "fitting"), [(1, 1), (2, 0)])
def test_all_pods_nominated_for_a_node_count(held: int, fitting: int) -> None:
    cluster = Cluster()
    cluster.node("n1", cpu="2")
    cluster.pod("web", 0)
    scheduler = cluster.scheduler
    pod = scheduler.queue.pods["d/web"]
    for key in ("d/a", "d/b")[:held]:
        scheduler.nominations.set(Nomination(key, "n1", 0, pod.waiting.usage))
    assert len(scheduler.fitting_rows(pod)) == fitting
