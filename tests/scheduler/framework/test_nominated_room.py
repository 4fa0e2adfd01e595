"""The room beside nominated pods by limits is what asking all filters with these pods gives."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from koord_scheduler.framework.nominated_room import rows_beside_nominated
from koord_scheduler.framework.nominations import Nomination

from tests.scheduler.framework.test_nominated_pods import Cluster
from tests.scheduler.framework.test_preemption import WithoutLimits, enabled, state
from tests.support.clusters import random_preemption
from tests.support.full_cluster import FullCluster
from tests.support.scheduler_profile import default_plugins


def beside(cluster: FullCluster, seed: int) -> list[int]:
    """Where a pod fits beside nominated pods, some of which were placed pods before."""
    rng, nodes = Random(seed), cluster.nodes
    names = sorted(nodes.name(row) for row in range(len(nodes)) if nodes.is_node[row])[:3]
    nominated = list(cluster.nominated)
    for key in sorted(cluster.placed.by_key):
        if rng.random() < 0.5:
            usage = cluster.placed.by_key[key].usage
            cluster.placed.remove(key)
            nominated.append(Nomination(key, rng.choice(names), 0, usage))
    rows = cluster.scores.feasible()
    before = state(cluster)
    found = rows_beside_nominated(cluster.scores, rows, nominated)
    assert state(cluster) == before
    return found.tolist()


@settings(max_examples=150)
@given(st.integers(0, 1 << 32))
def test_limits_say_what_filters_say(seed: int) -> None:
    rng = Random(seed)
    given_cluster = random_preemption(rng)
    plugins = [one.plugin for one in default_plugins()]
    chosen = rng.sample(plugins, rng.choice([1, 2, 3, 5, 10]))
    by_limits = FullCluster(given_cluster, enabled(chosen))
    by_filters = FullCluster(given_cluster, enabled([WithoutLimits(one) for one in chosen]))
    assert beside(by_limits, seed) == beside(by_filters, seed)


def test_all_pods_nominated_for_a_node_count() -> None:
    cluster = Cluster()
    cluster.node("n1", cpu="2")
    cluster.pod("web", 0)
    scheduler = cluster.scheduler
    pod = scheduler.queue.pods["d/web"]
    scores = scheduler.scores(pod)
    held = [Nomination(key, "n1", 0, pod.waiting.usage) for key in ("d/a", "d/b")]
    assert len(rows_beside_nominated(scores, scores.feasible(), held[:1])) == 1
    assert len(rows_beside_nominated(scores, scores.feasible(), held)) == 0
