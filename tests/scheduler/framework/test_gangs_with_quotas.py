"""Gangs are admitted by their quota as a whole, or not at all."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.gang_hold import HOLD_AFTER_SECONDS
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.plugins.elastic_quota.columns import QuotaColumns
from koord_scheduler.plugins.elastic_quota.plugin import ElasticQuotaPlugin

from tests.support.gangs import GangCluster, gang_annotations
from tests.support.quota_cluster import quota_object


def cluster_with_quota(cpus: int) -> GangCluster:
    """Two nodes of four CPUs, and a quota for all pods."""
    cluster = GangCluster("n1", "n2", more=[EnabledPlugin(ElasticQuotaPlugin())])
    set_quota(cluster, cpus)
    return cluster


def set_quota(cluster: GangCluster, cpus: int) -> None:
    document = quota_object("d", {"cpu": cpus}, {"cpu": 0})
    document["metadata"]["namespace"] = "d"
    cluster.put("ElasticQuota", "d/d", document)


def used(cluster: GangCluster) -> int:
    one = cluster.scheduler.nodes.use(QuotaColumns).trees.find("d")
    assert one is not None
    return one.node.used["cpu"]


def test_a_gang_starts_once_its_quota_has_room_for_all_of_it() -> None:
    cluster = cluster_with_quota(cpus=2)
    cluster.gang("g", 3)
    (refusal,) = cluster.refusals()
    assert refusal.gang.startswith("gang group d/g needs nodes for 3 pods at once: ")
    assert "quotaName: d" in refusal.gang
    assert (used(cluster), cluster.requested()) == (0, 0)
    set_quota(cluster, 3)
    assert sorted(cluster.placed(2.0)) == ["g-0", "g-1", "g-2"]
    assert used(cluster) == 3000


def test_members_with_labels_of_their_own_are_added_up() -> None:
    cluster = cluster_with_quota(cpus=2)
    for number in range(3):
        index = {"training.kubeflow.org/replica-index": str(number)}
        cluster.pod(f"g-{number}", gang_annotations("g", 3), labels=index)
    (refusal,) = cluster.refusals()
    assert "quotaName: d, runtime: cpu:2, used: <empty>, pod's request: cpu:3" in refusal.gang


def test_members_beyond_the_minimum_have_to_be_admitted_too() -> None:
    cluster = cluster_with_quota(cpus=3)
    cluster.gang("g", 4, minimum=2)
    assert sorted(cluster.placed()) == ["g-0", "g-1", "g-2"]


def test_no_room_is_held_for_a_gang_that_its_quota_does_not_admit() -> None:
    cluster = cluster_with_quota(cpus=2)
    cluster.gang("g", 3)
    for _ in range(20):
        assert cluster.placed(HOLD_AFTER_SECONDS / 10) == []
    assert len(cluster.scheduler.nominations) == 0


@given(st.integers(0, 2**32))
def test_neither_gangs_are_halved_nor_quotas_exceeded(seed: int) -> None:
    rng = Random(seed)
    cluster, quota = cluster_with_quota(cpus=4), 4
    sizes: dict[str, int] = {}
    for step in range(12):
        match rng.randrange(3):
            case 0:
                name = f"g{step}"
                sizes[name] = rng.randrange(1, 5)
                cluster.gang(name, sizes[name])
            case 1:
                quota = max(quota, rng.randrange(1, 9))  # never below what is used
                set_quota(cluster, quota)
            case 2 if sizes:
                name = rng.choice(list(sizes))
                for number in range(sizes.pop(name)):
                    cluster.remove(f"d/{name}-{number}")
        for decision in list(cluster.decisions(11.0)):
            if isinstance(decision, Placement):
                cluster.bind(decision)
        placed = [key for key in cluster.scheduler.placed.by_key if key in cluster.documents]
        for name, size in sizes.items():
            members = sum(key.startswith(f"d/{name}-") for key in placed)
            assert members in (0, size), name
        assert used(cluster) == 1000 * len(placed)
        assert used(cluster) <= 1000 * quota


def test_pods_beyond_a_minimum_do_not_take_what_another_gang_of_the_group_needs() -> None:
    cluster = cluster_with_quota(cpus=4)
    cluster.gang("a", 4, minimum=2, groups='["d/a", "d/b"]')
    cluster.gang("b", 2, groups='["d/a", "d/b"]')
    assert sorted(cluster.placed()) == ["a-0", "a-1", "b-0", "b-1"]


def test_held_room_is_let_go_once_the_quota_does_not_admit_the_gang() -> None:
    cluster = cluster_with_quota(cpus=12)
    for number in range(2):
        cluster.pod(f"old-{number}", cpus=2, nodeName=f"n{number + 1}")
        cluster.node(f"small-{number}", cpus=2)  # too small for the gang, and of the total
    cluster.gang("g", 2, cpus=3)
    while not len(cluster.scheduler.nominations):
        assert cluster.placed(1.0) == []
        assert cluster.now < 2 * HOLD_AFTER_SECONDS
    set_quota(cluster, 8)
    assert not any(cluster.placed(5.0) for _ in range(14))
    assert len(cluster.scheduler.nominations) == 0
