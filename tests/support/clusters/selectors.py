"""Random label selectors, node selector terms, and the labels that they select from."""

from __future__ import annotations

from random import Random
from typing import Any

Object = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOSTNAME = "kubernetes.io/hostname"
NODE_LABELS = {
    ZONE: ["z1", "z2", "z3"],
    REGION: ["r1", "r2"],
    "disk": ["ssd", "hdd"],
    "rack": ["1", "2", "3"],
    "gen": ["5", "7", "10", "007", "1e3", "x", ""],
}
"""Hostnames are the nodes' own; ``gen`` is for Gt and Lt, with values that are not numbers."""
POD_LABELS = {"app": ["web", "db", "cache"], "tier": ["front", "back"], "version": ["1", "2", ""]}
NAMESPACES = {
    "default": {"kubernetes.io/metadata.name": "default", "team": "x"},
    "prod": {"kubernetes.io/metadata.name": "prod", "team": "x", "env": "prod"},
    "test": {"kubernetes.io/metadata.name": "test", "env": "test"},
}


def chance(rng: Random, probability: float) -> bool:
    return rng.random() < probability


def some(rng: Random, items: list[Any], low: int, high: int) -> list[Any]:
    """Between ``low`` and ``high`` distinct items, as far as there are so many."""
    return rng.sample(items, min(len(items), rng.randint(low, high)))


def pod_labels(rng: Random) -> dict[str, str]:
    weights = {"app": 0.9, "tier": 0.6, "version": 0.5}
    return {
        key: rng.choice(POD_LABELS[key]) for key, weight in weights.items() if chance(rng, weight)
    }


def requirement(rng: Random, vocabulary: dict[str, list[str]], operators: list[str]) -> Object:
    """One row of ``matchExpressions``; some keys and values exist nowhere."""
    key = rng.choice([*vocabulary, "missing"]) if chance(rng, 0.15) else rng.choice([*vocabulary])
    operator = rng.choice(operators)
    if operator in {"Exists", "DoesNotExist"}:
        return {"key": key, "operator": operator}
    if operator in {"Gt", "Lt"}:
        return {"key": "gen", "operator": operator, "values": [rng.choice(["0", "4", "6", "7"])]}
    values = some(rng, [*vocabulary.get(key, []), "other"], 1, 3)
    return {"key": key, "operator": operator, "values": values}


LABEL_OPERATORS = ["In", "In", "In", "NotIn", "NotIn", "Exists", "DoesNotExist"]
NODE_OPERATORS = ["In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


def label_selector(
    rng: Random, vocabulary: dict[str, list[str]] = POD_LABELS, like: dict[str, str] | None = None
) -> Object | None:
    """A LabelSelector: none, an empty one, labels, expressions, or both.

    With ``like`` it mostly selects these labels, as a workload's selector does.
    """
    kind = rng.random()
    if kind < 0.04:
        return None
    if kind < 0.1:
        return {}
    if like and kind < 0.75:
        return {"matchLabels": dict(some(rng, [*like.items()], 1, rng.choice([1, 1, 2])))}
    selector: Object = {}
    if kind < 0.8:
        keys = some(rng, [*vocabulary], 1, rng.choice([1, 1, 2]))
        selector["matchLabels"] = {key: rng.choice(vocabulary[key]) for key in keys}
    if kind > 0.7:
        expressions = [requirement(rng, vocabulary, LABEL_OPERATORS)]
        if chance(rng, 0.3):
            expressions.append(requirement(rng, vocabulary, LABEL_OPERATORS))
        selector["matchExpressions"] = expressions
    return selector


def node_selector_term(rng: Random, node_names: list[str]) -> Object:
    """A term of a node affinity; an empty one matches no node."""
    term: Object = {}
    vocabulary = {**NODE_LABELS, HOSTNAME: node_names}
    kind = rng.random()
    if kind < 0.04:
        return term
    if kind < 0.85:
        number = rng.choice([1, 1, 2])
        term["matchExpressions"] = [
            requirement(rng, vocabulary, NODE_OPERATORS) for _ in range(number)
        ]
    if kind > 0.78:
        operator = rng.choice(["In", "In", "NotIn"])
        name = "gone" if chance(rng, 0.08) else rng.choice(node_names)
        names = [name, *some(rng, node_names, 0 if chance(rng, 0.7) else 1, 1)]
        term["matchFields"] = [
            {"key": "metadata.name", "operator": operator, "values": [one]} for one in names
        ]
    return term


def node_affinity(rng: Random, node_names: list[str]) -> Object:
    """Required terms, preferred terms, or both."""
    affinity: Object = {}
    kind = rng.random()
    if kind < 0.65:
        terms = [node_selector_term(rng, node_names) for _ in range(rng.choice([1, 1, 2, 3]))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if kind > 0.35:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {
                "weight": rng.choice([1, 5, 10, 33, 100]),
                "preference": node_selector_term(rng, node_names),
            }
            for _ in range(rng.choice([1, 2, 3]))
        ]
    return affinity
