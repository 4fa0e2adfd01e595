"""Pods get nodes as far as their quota goes, wait for it, and make room within it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework.decisions import Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.fit_error import not_admitted_message
from koord_scheduler.plugin import Filter, Plugin
from koord_scheduler.plugins.elastic_quota.admission import AdmissionRules, refusal
from koord_scheduler.plugins.elastic_quota.columns import QuotaColumns
from koord_scheduler.plugins.elastic_quota.plugin import ElasticQuotaSettings
from koord_scheduler.plugins.elastic_quota.quota_trees import QuotaGates, QuotaRules, QuotaTrees
from koord_scheduler.program.explanation import Now, explain_queued
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass

from tests.support.quota_cluster import QuotaCluster

PARENTS = ElasticQuotaSettings(admission=AdmissionRules(checks_parents=True))


class CountingFilter(Plugin):
    """Lets pods run anywhere, and counts the rows that it was asked about."""

    name = "CountingFilter"

    def __init__(self) -> None:
        self.asked = 0

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        def can_run(rows: Rows) -> Mask:
            self.asked += len(rows)
            return nodes.is_node[rows]

        return can_run


def placed(cluster: QuotaCluster) -> list[str]:
    """The names of pods that get nodes, as long as some do."""
    found = []
    while (decision := cluster.scheduler.decide(0.0)) is not None:
        if isinstance(decision, Placement):
            found.append(decision.pod.key.removeprefix("shop/"))
    return found


def test_a_class_waits_for_its_quota_with_the_words_of_koordinator() -> None:
    counting = CountingFilter()
    cluster = QuotaCluster("n1", "n2", more=[counting])
    cluster.quota("team", 3)
    for name in "abcd":
        cluster.pod(name, "team")
    assert placed(cluster) == ["a", "b", "c"]
    cluster.pod("e", "team")
    asked = counting.asked
    decision = cluster.decide()
    assert isinstance(decision, Refusal)
    reason = decision.not_admitted
    assert (
        not_admitted_message(2, reason)
        == cluster.message(decision)
        == (
            "0/2 nodes are available: Insufficient quotas, quotaName: team, runtime: cpu:3, "
            "used: cpu:3, pod's request: cpu:1, exceedDimensions: [cpu]."
        )
    )
    assert cluster.scheduler.wake(1.0) == 0
    cluster.remove("Pod", "shop/a")
    assert cluster.scheduler.wake(2.0) == 1
    assert placed(cluster) == ["d"]
    cluster.quota("team", 4)
    assert cluster.scheduler.wake(3.0) == 1
    assert placed(cluster) == ["e"]
    # Of its two nodes each was asked about when a pod came or went, and no more.
    assert counting.asked - asked < 8 * 2


def test_used_follows_what_is_assumed_and_forgotten() -> None:
    cluster = QuotaCluster("n1")
    cluster.quota("org", 8)
    cluster.quota("team", 8, parent="org")
    cluster.pod("a", "team", 2)
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    assert (cluster.used("team"), cluster.used("org")) == (2000, 2000)
    cluster.scheduler.forget(decision.pod, 0.0)
    assert (cluster.used("team"), cluster.used("org")) == (0, 0)
    cluster.pod("a", "team", 3, "n1")
    assert cluster.used("org") == 3000
    cluster.remove("Pod", "shop/a")
    assert cluster.used("org") == 0


def test_pods_move_to_a_quota_that_comes_later() -> None:
    cluster = QuotaCluster("n1")
    cluster.quota("other", 8)
    cluster.pod("a", "team", 2, "n1")
    assert cluster.used("koordinator-default-quota") == 2000
    cluster.quota("team", 8)
    assert (cluster.used("team"), cluster.used("koordinator-default-quota")) == (2000, 0)
    cluster.remove("ElasticQuota", "q/team")
    assert cluster.used("koordinator-default-quota") == 2000


def test_parents_and_what_may_not_be_preempted_are_held_to_their_limits() -> None:
    cluster = QuotaCluster("n1", settings=PARENTS)
    cluster.quota("org", 3, is_parent="true")
    cluster.quota("a", 3, 1, parent="org")
    cluster.quota("b", 3, parent="org")
    cluster.pod("a1", "a", 1, preemptible="false")
    cluster.pod("a2", "a", 1, preemptible="false")
    cluster.pod("b1", "b", 1)
    cluster.pod("o1", "org", 1)
    assert placed(cluster) == ["a1", "b1", "o1"]
    pod = cluster.scheduler.queue.pods["shop/a2"]
    found = cluster.plugin.refusal((pod.waiting.pod_class,), cluster.scheduler.nodes)
    assert found is not None
    assert (found.quota, found.non_preemptible, found.limit) == ("a", True, {"cpu": 1000})
    cluster.quota("a", 3, 2, parent="org")
    found = cluster.plugin.refusal((pod.waiting.pod_class,), cluster.scheduler.nodes)
    assert found is not None
    assert (found.quota, found.path) == ("org", ("org", "a"))


def test_without_quotas_nothing_is_held_back() -> None:
    cluster = QuotaCluster("n1")
    cluster.pod("a", "team", 2)
    assert placed(cluster) == ["a"]


# ---- preemption


def plan(cluster: QuotaCluster) -> tuple[str, list[str]]:
    decision = cluster.decide()
    assert isinstance(decision, PreemptionPlan)
    victims = [one.key.removeprefix("shop/") for one in decision.preemption.victims]
    return decision.preemption.node, victims


class Opaque(Plugin):
    """A filter that cannot be said as limits."""

    name = "Opaque"

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        return lambda rows: nodes.is_node[rows]


@pytest.mark.parametrize("more", [[], [Opaque()]])
def test_a_pod_takes_the_place_of_the_least_important_of_its_quota(more: list[Plugin]) -> None:
    cluster = QuotaCluster("n1", "n2", more=more)
    cluster.quota("team", 5)
    cluster.quota("other", 8)
    cluster.pod("foreign", "other", 1, "n1", priority=-5)
    cluster.pod("stays", "team", 1, "n1", preemptible="false")
    cluster.pod("low", "team", 2, "n1", priority=1)
    cluster.pod("mid", "team", 2, "n2", priority=2)
    cluster.pod("high", "team", 2, priority=3)
    assert plan(cluster) == ("n1", ["low"])
    assert cluster.scheduler.wake(1.0) == 0
    cluster.remove("Pod", "shop/low")
    assert cluster.scheduler.wake(2.0) == 1
    assert placed(cluster) == ["high"]


def test_nobody_goes_where_that_does_not_help() -> None:
    cluster = QuotaCluster("n1")
    cluster.quota("team", 4)
    cluster.quota("other", 8)
    cluster.pod("foreign", "other", 1, "n1", priority=-5)
    cluster.pod("low", "team", 1, "n1", priority=1)
    cluster.pod("equal", "team", 3, "n1", priority=3)
    cluster.pod("high", "team", 2, priority=3)
    assert isinstance(cluster.decide(), Refusal)
    cluster.pod("default", "", 6, "n1")
    cluster.quota("koordinator-default-quota", 6)
    cluster.pod("important", "", 1, priority=9)
    assert isinstance(cluster.decide(), Refusal)  # those of the default quota stay


def test_disruption_budgets_count_and_full_nodes_are_tried_within_the_quota_first() -> None:
    cluster = QuotaCluster("n1", "n2")
    cluster.quota("team", 16)
    cluster.quota("other", 16)
    for node in ("n1", "n2"):
        cluster.pod(f"team-{node}", "team", 4, node, priority=1, labels={"on": node})
        cluster.pod(f"other-{node}", "other", 4, node, priority=0)
    budget = {"spec": {"selector": {"matchLabels": {"on": "n1"}}}, "status": {}}
    metadata = {"name": "b", "namespace": "shop"}
    cluster.put("PodDisruptionBudget", "shop/b", {"metadata": metadata, **budget})
    cluster.pod("high", "team", 4, priority=5)
    assert plan(cluster) == ("n2", ["team-n2"])


# ---- all of it


def fresh_trees(quotas: QuotaColumns, pods: dict[str, tuple[str, int, bool]]) -> QuotaTrees:
    """Made anew of what there is: by pod its quota, CPUs, and whether it has a node."""
    found = (read.quota for read in quotas.objects.values())
    made = QuotaTrees(found, QuotaRules(), QuotaGates())
    made.set_cluster_total({"cpu": 16000})
    for name, cpus, has_node in pods.values():
        one = made.find(name)
        assert one is not None
        one.tree.add_request(one.node, {"cpu": 1000 * cpus})
        if has_node:
            one.tree.add_used(one.node, {"cpu": 1000 * cpus})
    return made


@given(st.integers(0, 1 << 32))
def test_every_decision_is_that_of_a_look_at_everything(seed: int) -> None:
    rng, cluster = Random(seed), QuotaCluster("n1", "n2", settings=PARENTS)
    pods: dict[str, tuple[str, int, bool]] = {}
    names = ("a", "b", "c")

    def change_quota() -> None:
        cluster.quota("org", rng.randint(4, 16), rng.randint(0, 4), is_parent="true")
        for name in rng.sample(names, rng.randint(1, 3)):
            parent = "org" if name != "c" else ""
            lends = rng.choice(["true", "false"])
            least, most = sorted((rng.randint(0, 9), rng.randint(0, 9)))
            cluster.quota(name, most, least, parent, allow_lent_resource=lends)

    def admits(name: str, cpus: int) -> bool:
        trees = fresh_trees(cluster.quotas, pods)
        one = trees.find(name)
        assert one is not None
        return refusal(trees, one, {"cpu": 1000 * cpus}, PARENTS.admission) is None

    def settle(now: float) -> None:
        cluster.scheduler.tick(now)
        decide(now)
        while cluster.scheduler.wake(now):
            decide(now)

    def decide(now: float) -> None:
        while (decision := cluster.scheduler.decide(now)) is not None:
            if isinstance(decision, Placement):
                name, cpus, _ = pods[decision.pod.key]
                assert admits(name, cpus)
                pods[decision.pod.key] = name, cpus, True

    for name in names:
        cluster.quota(name, 8)
    for step in range(rng.randint(3, 14)):
        choice = rng.random()
        if choice < 0.6:
            name, cpus = rng.choice(names), rng.randint(1, 4)
            cluster.pod(f"p{step}", name, cpus, preemptionPolicy="Never")
            pods[f"shop/p{step}"] = name, cpus, False
        elif choice < 0.75 and pods:
            key = rng.choice(list(pods))
            cluster.remove("Pod", key)
            del pods[key]
        elif choice < 0.85 and cluster.scheduler.assumed:
            key = rng.choice(list(cluster.scheduler.assumed))
            cluster.scheduler.forget(cluster.scheduler.assumed[key], 0.0)
            pods[key] = (*pods[key][:2], False)
        else:
            change_quota()
        settle(100.0 * step)
        trees: Any = fresh_trees(cluster.quotas, pods)
        for one in trees:
            assert cluster.used(one.name) == one.node.used["cpu"]
    free = {row: 8000 - int(cluster.scheduler.nodes.resources.requested[0, row]) for row in (0, 1)}
    settle(9999.0)
    for name, cpus, has_node in pods.values():
        assert has_node or not admits(name, cpus) or max(free.values()) < 1000 * cpus


def test_what_a_quota_lacks_and_who_has_it_is_explained() -> None:
    cluster = QuotaCluster("n1")
    cluster.quota("team", 8, 3)
    cluster.quota("other", 8, 1)
    cluster.pod("small", "team", 1, "n1")
    cluster.pod("large", "team", 2, "n1")
    cluster.pod("foreign", "other", 5, "n1")
    cluster.pod("waits", "team", 4)
    assert isinstance(cluster.decide(), Refusal)
    pod = cluster.scheduler.queue.pods["shop/waits"]
    document = explain_queued(cluster.scheduler, pod, Now(0.0, 0.0))
    found = document["quota"]
    assert (found["quota"], found["used"], found["limit"]) == ("team", {"cpu": "3"}, {"cpu": "5"})
    assert found["lacks"] == {"cpu": "2"}
    assert list(found["holders"].items()) == [("shop/large", "2"), ("shop/small", "1")]
    assert found["borrowers"] == {"other": "4"}
    assert document["diagnosis"]["plugins"][-1]["plugin"] == "ElasticQuota"
    assert "ElasticQuota" in document["diagnosis"]["wakes_on"][0]


def test_a_quota_that_pods_name_and_is_not_there_is_reported_once() -> None:
    cluster = QuotaCluster("n1")
    cluster.quota("team", 3)
    quotas = cluster.scheduler.nodes.use(QuotaColumns)
    for name, quota in (("a", "nope"), ("b", "nope"), ("c", "team")):
        cluster.pod(name, quota)
    assert quotas.take_warnings() == [
        (
            'pods of namespace shop name the ElasticQuota "nope", which is not there: '
            "they count as koordinator-default-quota's"
        )
    ]
    assert quotas.take_warnings() == []
