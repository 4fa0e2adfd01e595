"""Placed pods by row and importance, and budgets on their evictions, against naive versions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model import label_selector
from koord_scheduler.framework.disruption_budgets import DisruptionBudgets
from koord_scheduler.objects.disruption_budget import DisruptionBudget, read_disruption_budget
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods
from koord_scheduler.state.pod_labels import pod_labels
from koord_scheduler.state.pod_usage import PlacedPod, PodUsage

NAMES = [f"p{number}" for number in range(12)]
NODES = ["n1", "n2", "n3"]
APPS = ["web", "db", ""]
SELECTORS = [
    None,
    {},
    {"matchLabels": {"app": "web"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
    {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
]


def order(pod: PlacedPod) -> tuple[float, float]:
    return -pod.priority, math.inf if pod.started is None else pod.started


class Placed:
    """Pods that come, change and go."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.nodes = ClusterState(length=1)
        self.placed = PlacedPods(self.nodes)
        self.pods: list[PlacedPod] = []  # in the order in which they came to where they are
        self.budgets = DisruptionBudgets()
        self.known: dict[str, DisruptionBudget] = {}

    def usage(self, namespace: str) -> PodUsage:
        rng, app = self.rng, self.rng.choice(APPS)
        amounts = {"cpu": rng.choice([0, 100, 200]), rng.choice(["memory", "a/b", "c/d"]): 7}
        labels = pod_labels(namespace, {"app": app} if app else {})
        return self.nodes.usage(PodRequests(amounts, 1, 1), (), labels)

    def set(self) -> None:
        rng = self.rng
        namespace = rng.choice(["default", "test"])
        key = f"{namespace}/{rng.choice(NAMES)}"
        before = next((pod for pod in self.pods if pod.key == key), None)
        same = before is not None and rng.random() < 0.5
        pod = PlacedPod(
            key,
            "uid",
            before.node if before is not None and same else rng.choice(NODES),
            rng.choice([0, 5, -5]),
            rng.choice([None, 1.0, 2.0, 3.0]),
            before.usage if before is not None and same else self.usage(namespace),
            rng.random() < 0.5,
        )
        self.placed.set(pod)
        stays = before is not None and before[2:6] == pod[2:6]
        if before is not None and stays:
            self.pods[self.pods.index(before)] = pod
            return
        self.pods = [one for one in self.pods if one.key != key] + [pod]

    def remove(self) -> None:
        if self.pods:
            pod = self.pods.pop(self.rng.randrange(len(self.pods)))
            self.placed.remove(pod.key)

    def set_budget(self) -> None:
        rng = self.rng
        selector = rng.choice(SELECTORS)
        parsed = None if selector is None else label_selector.parse(selector, "selector")
        namespace, name = rng.choice(["default", "test"]), rng.choice("ab")
        disrupted = frozenset(rng.sample(NAMES, rng.choice([0, 0, 3])))
        budget = DisruptionBudget(namespace, name, parsed, rng.choice([0, 1, 2]), disrupted)
        self.budgets.set(budget)
        self.known[budget.key] = budget

    def remove_budget(self) -> None:
        if self.known:
            key = self.rng.choice(sorted(self.known))
            del self.known[key]
            self.budgets.remove(key)

    def on(self, node: str) -> list[PlacedPod]:
        return sorted((pod for pod in self.pods if pod.node == node), key=order)

    def check(self) -> None:
        placed, nodes = self.placed, self.nodes
        assert dict(placed.by_key) == {pod.key: pod for pod in self.pods}
        there = [name for name in NODES if nodes.row(name) is not None]
        rows = np.array([nodes.row_of_pods(name) for name in there], np.intp)
        for name, row in zip(there, rows.tolist(), strict=True):
            assert list(placed.on(row)) == self.on(name)
        lower = placed.below(5, rows)
        expected = [(at, pod) for at, name in enumerate(there) for pod in self.on(name)]
        expected = [(at, pod) for at, pod in expected if pod.priority < 5]
        assert lower.at.tolist() == [at for at, _ in expected]
        assert [placed.pod(slot) for slot in lower.slots.tolist()] == [pod for _, pod in expected]
        for resource in (*nodes.resources.names, "example.com/none"):
            amounts = [dict(pod.usage.request).get(resource, 0.0) for _, pod in expected]
            assert placed.amounts(resource, lower.slots).tolist() == amounts
        terms = placed.amounts(lambda usage: len(usage.labels.labels), lower.slots)
        assert terms.tolist() == [len(pod.usage.labels.labels) for _, pod in expected]
        violated = self.budgets.violated_by(lower, placed).tolist()
        by_row = [[pod for at, pod in expected if at == place] for place in range(len(there))]
        assert violated == [one for pods in by_row for one in self.violations(pods)]

    def violations(self, pods: Iterable[PlacedPod]) -> Iterable[bool]:
        """As Kubernetes' filterPodsWithPDBViolation."""
        evicted: Counter[str] = Counter()
        for pod in pods:
            namespace, name = pod.key.split("/")
            about = [
                key
                for key, one in self.known.items()
                if one.means(namespace, dict(pod.usage.labels.labels)) and name not in one.disrupted
            ]
            evicted.update(about)
            yield any(evicted[key] > self.known[key].allowed for key in about)


@given(st.integers(0, 1 << 32))
def test_pods_are_in_order_and_budgets_count(seed: int) -> None:
    rng = Random(seed)
    placed = Placed(rng)
    for _ in range(40):
        change = [placed.set, placed.set, placed.set, placed.remove, placed.set_budget]
        rng.choice([*change, placed.remove_budget])()
        placed.check()


def test_the_pods_of_a_usage_share_it() -> None:
    nodes = ClusterState()
    placed = PlacedPods(nodes)
    for name in "ab":
        usage = nodes.usage(PodRequests({"cpu": 5}, 1, 1), (), pod_labels("default", {}))
        placed.set(PlacedPod(name, "", "n1", 0, None, usage))
    assert placed.by_key["a"].usage is placed.by_key["b"].usage


def test_a_budget_of_the_api() -> None:
    text = b"""{"metadata": {"namespace": "prod", "name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 2, "disruptedPods": {"p1": "2026-01-01T00:00:00Z"}}}"""
    budget = read_disruption_budget(text)
    assert (budget.key, budget.allowed, budget.disrupted) == ("prod/b", 2, {"p1"})
    assert budget.means("prod", {"app": "web"})
    assert not budget.means("prod", {"app": "db"})
    assert not budget.means("test", {"app": "web"})


@pytest.mark.parametrize("selector", [b"", b', "selector": null', b', "selector": {}'])
def test_a_budget_without_requirements_means_no_pod(selector: bytes) -> None:
    text = b'{"metadata": {"namespace": "prod", "name": "b"}, "spec": {"minAvailable": 1%s}}'
    budget = read_disruption_budget(text % selector)
    assert not budget.means("prod", {"app": "web"})
    assert budget.allowed == 0


@pytest.mark.parametrize("text", [b"[]", b'{"spec": {"selector": {"matchLabel": {}}}}'])
def test_what_is_not_a_budget(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"PodDisruptionBudget|matchLabel"):
        read_disruption_budget(text)
