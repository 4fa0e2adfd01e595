"""Trees that pods come to and leave are those that are made anew with what is there."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from koord_model.elastic_quota import ROOT_QUOTA, ElasticQuota
from koord_scheduler.plugins.elastic_quota.quota_tree import QuotaTree

CPU = "cpu"
NAMES = ("a", "b", "c", "d", "e")
AMOUNT = st.integers(0, 20)
QUOTA = st.tuples(st.sampled_from((ROOT_QUOTA, *NAMES)), AMOUNT, AMOUNT, AMOUNT, st.booleans())
POD = st.tuples(st.sampled_from(NAMES), st.integers(0, 9), st.booleans(), st.booleans())


def quota(name: str, parent: str, least: int, more: int, weight: int, lends: bool) -> ElasticQuota:
    return ElasticQuota(
        name,
        min={CPU: least},
        max={CPU: least + more},
        shared_weight={CPU: weight},
        parent=parent,
        allows_lent_resource=lends,
    )


def tree_of(given_quotas: list[tuple[str, int, int, int, bool]], guarantees: bool) -> QuotaTree:
    quotas = (quota(name, *one) for name, one in zip(NAMES, given_quotas, strict=True))
    return QuotaTree(quotas, guarantees_usage=guarantees)


def put(tree: QuotaTree, pod: tuple[str, int, bool, bool], sign: int = 1) -> None:
    name, amount, has_node, stays = pod
    node = tree.nodes[name]
    tree.add_request(node, {CPU: amount, "other": 1}, sign, non_preemptible=stays)
    if has_node:
        tree.add_used(node, {CPU: amount, "other": 1}, sign, non_preemptible=stays)


def state(tree: QuotaTree) -> dict[str, Any]:
    return {
        node.quota.name: (
            dict(tree.runtime(node)),
            *(one[CPU] for one in (node.child_request, node.used, node.allocated)),
            *(one[CPU] for one in (node.non_preemptible_request, node.non_preemptible_used)),
            node.request(CPU),
            node.guaranteed.get(CPU, 0),
        )
        for node in (tree.root, *tree.nodes.values())
    }


@given(
    st.lists(QUOTA, min_size=len(NAMES), max_size=len(NAMES)),
    st.lists(POD, max_size=12),
    st.sets(st.integers(0, 11)),
    st.integers(0, 60),
    st.booleans(),
)
def test_what_comes_and_goes_leaves_nothing_behind(
    quotas: list[tuple[str, int, int, int, bool]],
    pods: list[tuple[str, int, bool, bool]],
    leaving: set[int],
    total: int,
    guarantees: bool,
) -> None:
    tree = tree_of(quotas, guarantees)
    tree.set_total({CPU: total // 2})
    for pod in pods:
        put(tree, pod)
    state(tree)
    for place in leaving:
        if place < len(pods):
            put(tree, pods[place], -1)
    tree.set_total({CPU: total})
    fresh = tree_of(quotas, guarantees)
    fresh.set_total({CPU: total})
    for place, pod in enumerate(pods):
        if place not in leaving:
            put(fresh, pod)
    assert state(tree) == state(fresh)
    for node in tree.nodes.values():
        floor = max(node.quota.min[CPU], node.guaranteed.get(CPU, 0))
        assert tree.runtime(node).get(CPU, 0) <= max(floor, node.limited.get(CPU, 0))
    top = [node for node in tree.nodes.values() if node.parent is tree.root]
    if not guarantees and all(node.lends for node in top):
        assert sum(tree.runtime(node).get(CPU, 0) for node in top) <= total


def test_quotas_in_a_circle_or_without_parent_count_below_the_root() -> None:
    tree = tree_of(
        [
            ("b", 1, 9, 1, True),
            ("a", 1, 9, 1, True),
            ("gone", 1, 9, 1, True),
            (ROOT_QUOTA, 1, 9, 1, True),
            ("d", 1, 9, 1, True),
        ],
        guarantees=False,
    )
    assert {one.name for one in tree.orphans} >= {"c"}
    tree.set_total({CPU: 20})
    put(tree, ("e", 5, True, False))
    assert tree.runtime(tree.nodes["e"]) == {CPU: 5}
    assert tree.root.used[CPU] == 5
