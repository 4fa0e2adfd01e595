"""Trees that pods come to and leave are as their definitions say of the pods that are there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from koord_model.elastic_quota import ROOT_QUOTA, ElasticQuota
from koord_scheduler.plugins.elastic_quota.quota_tree import QuotaTree

from tests.scheduler.plugins.elastic_quota.test_fair_share import naive

CPU = "cpu"
NAMES = ("a", "b", "c", "d", "e")
AMOUNT = st.integers(0, 20)
QUOTA = st.tuples(st.sampled_from((ROOT_QUOTA, *NAMES)), AMOUNT, AMOUNT, AMOUNT, st.booleans())


class Pod(NamedTuple):
    quota: str
    amount: int
    has_node: bool
    stays: bool
    """It may not be preempted."""


POD = st.builds(Pod, st.sampled_from(NAMES), st.integers(0, 9), st.booleans(), st.booleans())


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


def put(tree: QuotaTree, pod: Pod, sign: int = 1) -> None:
    name, amount, has_node, stays = pod
    node = tree.nodes[name]
    tree.add_request(node, {CPU: amount, "other": 1}, sign, non_preemptible=stays)
    if has_node:
        tree.add_used(node, {CPU: amount, "other": 1}, sign, non_preemptible=stays)


@dataclass
class Plain:
    """The tree by its definitions, from the pods that are there: nothing is kept up to date."""

    tree: QuotaTree
    pods: list[Pod]
    total: int
    guarantees: bool

    def children(self, name: str) -> list[str]:
        nodes = self.tree.nodes.values()
        return [node.quota.name for node in nodes if node.parent and node.parent.quota.name == name]

    def quota(self, name: str) -> ElasticQuota:
        return self.tree.nodes[name].quota

    def lends(self, name: str) -> bool:
        return self.quota(name).allows_lent_resource and not self.guarantees

    def of_pods(self, name: str, *, used: bool = False, stays: bool = False) -> int:
        """Of its own pods."""
        return sum(
            pod.amount
            for pod in self.pods
            if pod.quota == name and pod.has_node >= used and pod.stays >= stays
        )

    def of_all_pods(self, name: str, **which: bool) -> int:
        below = (self.of_all_pods(child, **which) for child in self.children(name))
        return self.of_pods(name, **which) + sum(below)

    def child_request(self, name: str) -> int:
        return self.of_pods(name) + sum(map(self.limited, self.children(name)))

    def request(self, name: str) -> int:
        asked = self.child_request(name)
        return asked if self.lends(name) else max(asked, self.quota(name).min[CPU])

    def limited(self, name: str) -> int:
        return min(self.request(name), self.quota(name).max[CPU])

    def allocated(self, name: str) -> int:
        own = self.of_pods(name, used=True)
        return own + sum(map(self.guaranteed, self.children(name))) if self.guarantees else 0

    def guaranteed(self, name: str) -> int:
        return max(self.allocated(name), self.quota(name).min[CPU]) if self.guarantees else 0

    def scaled_mins(self, names: list[str], total: int) -> list[int]:
        least = [self.quota(name).min[CPU] for name in names]
        whole = sum(least)
        return least if total >= whole else [int(float(total) * one / whole) for one in least]

    def runtimes(self, parent: str, total: int) -> dict[str, int]:
        """Of all below a quota that may use so much."""
        names = self.children(parent)
        claims = [
            (
                self.limited(name),
                max(scaled, self.guaranteed(name)),
                self.quota(name).shared_weight[CPU],
                self.lends(name),
            )
            for name, scaled in zip(names, self.scaled_mins(names, total), strict=True)
        ]
        found = dict(zip(names, naive(total, claims), strict=True)) if names else {}
        for name in names:
            found |= self.runtimes(name, found[name])
        return found


@given(
    st.lists(QUOTA, min_size=len(NAMES), max_size=len(NAMES)),
    st.lists(POD, max_size=12),
    st.sets(st.integers(0, 11)),
    st.integers(0, 60),
    st.booleans(),
)
def test_all_is_as_the_pods_that_are_there_say(
    quotas: list[tuple[str, int, int, int, bool]],
    pods: list[Pod],
    leaving: set[int],
    total: int,
    guarantees: bool,
) -> None:
    tree = tree_of(quotas, guarantees)
    tree.set_total({CPU: total // 2})
    for pod in pods:
        put(tree, pod)
        tree.runtime(tree.nodes[pod.quota])
    for place, pod in enumerate(pods):
        if place in leaving:
            put(tree, pod, -1)
    tree.set_total({CPU: total})
    there = [pod for place, pod in enumerate(pods) if place not in leaving]
    plain = Plain(tree, there, total, guarantees)
    runtimes = plain.runtimes(ROOT_QUOTA, total)
    assert tree.runtime(tree.root) == {CPU: total}
    assert tree.root.used[CPU] == plain.of_all_pods(ROOT_QUOTA, used=True)
    assert tree.root.child_request[CPU] == plain.child_request(ROOT_QUOTA)
    assert tree.root.allocated[CPU] == plain.allocated(ROOT_QUOTA)
    for name, node in tree.nodes.items():
        assert tree.runtime(node) == {CPU: runtimes[name]}
        assert node.requests().get(CPU, 0) == node.request(CPU) == plain.request(name)
        assert node.child_request[CPU] == plain.child_request(name)
        assert node.limit_request(CPU) == node.limited.get(CPU, 0) == plain.limited(name)
        assert node.allocated[CPU] == plain.allocated(name)
        assert node.guaranteed.get(CPU, 0) == plain.guaranteed(name)
        assert node.own_request[CPU] == plain.of_pods(name)
        assert node.own_used[CPU] == plain.of_pods(name, used=True)
        assert node.own_non_preemptible_request[CPU] == plain.of_pods(name, stays=True)
        assert node.own_non_preemptible_used[CPU] == plain.of_pods(name, used=True, stays=True)
        assert node.used[CPU] == plain.of_all_pods(name, used=True)
        assert node.non_preemptible_request[CPU] == plain.of_all_pods(name, stays=True)
        assert node.non_preemptible_used[CPU] == plain.of_all_pods(name, used=True, stays=True)
        assert not node.own_request["other"], "its max does not name it"
        above = plain.children(node.parent.quota.name)
        left = total if node.parent is tree.root else runtimes[node.parent.quota.name]
        scaled = dict(zip(above, plain.scaled_mins(above, left), strict=True))
        assert tree.scaled_min(node) == {CPU: scaled[name]}


def test_nothing_is_shared_anew_where_the_total_is_as_it_was() -> None:
    tree = tree_of([(ROOT_QUOTA, 1, 9, 1, True)] * len(NAMES), guarantees=False)
    tree.set_total({CPU: 5})
    before = tree.version
    tree.set_total({CPU: 5})
    assert tree.version == before
    tree.set_total({CPU: 6})
    assert tree.version != before


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
    put(tree, Pod("e", 5, has_node=True, stays=False))
    assert tree.runtime(tree.nodes["e"]) == {CPU: 5}
    assert tree.root.used[CPU] == 5


def test_what_neither_min_nor_total_names_is_nothing() -> None:
    given = ElasticQuota("a", max={CPU: 9, "gpu": 9}, shared_weight={CPU: 1, "gpu": 1})
    tree = QuotaTree([given, replace(given, name="b")])
    tree.set_total({CPU: 9})
    for name in ("a", "b"):
        tree.add_request(tree.nodes[name], {CPU: 6, "gpu": 6})
    assert tree.runtime(tree.nodes["a"]) == {CPU: 5, "gpu": 0}
    assert tree.runtime(tree.nodes["b"]) == {CPU: 4, "gpu": 0}
    assert tree.scaled_min(tree.nodes["a"]) == {CPU: 0, "gpu": 0}
