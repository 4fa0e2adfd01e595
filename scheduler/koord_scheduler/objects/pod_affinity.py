"""Pods that a pod is to be with or apart from, compiled. No IO.

The API server has put ``matchLabelKeys`` and ``mismatchLabelKeys`` into the selectors already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from koord_model import label_selector
from koord_model.label_selector import LabelSelector


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Pods on nodes that have one value of the label ``key``.

    ``selector`` says which pods, none where it is ``None``; they are in one of ``namespaces``, or
    in one whose labels ``namespace_selector`` means.
    """

    key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    selector: LabelSelector | None

    def means(self, namespace: str, namespace_labels: Mapping[str, str]) -> bool:
        """True if pods of a namespace are included, if the selector selects them."""
        if namespace in self.namespaces:
            return True
        by_labels = self.namespace_selector
        return by_labels is not None and by_labels.matches(namespace_labels)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """True if a pod with these labels is selected, if its namespace is included."""
        return self.selector is not None and self.selector.matches(labels)


class WeightedTerm(NamedTuple):
    """A preference; with a negative weight, pods are to be apart."""

    weight: int
    term: AffinityTerm


class PodAffinity(NamedTuple):
    """The pods that a pod has to be with, has to be apart from, and prefers."""

    required: tuple[AffinityTerm, ...] = ()
    anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()


def pod_affinity(namespace: str, affinity: Mapping[str, Any] | None) -> PodAffinity:
    """Return the terms about other pods in the ``affinity`` of a pod in a namespace.

    Raises:
        ValueError: a selector is not one.
    """
    if not affinity:
        return PodAffinity()
    together, apart = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    return PodAffinity(
        _terms(together, namespace),
        _terms(apart, namespace),
        (*_weighted(together, namespace, 1), *_weighted(apart, namespace, -1)),
    )


def _terms(given: Mapping[str, Any], namespace: str) -> tuple[AffinityTerm, ...]:
    required = given.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(_term(one, namespace) for one in required)


def _weighted(given: Mapping[str, Any], namespace: str, sign: int) -> tuple[WeightedTerm, ...]:
    preferred = given.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(
        WeightedTerm(sign * one.get("weight", 0), _term(one["podAffinityTerm"], namespace))
        for one in preferred
    )


def _term(given: Mapping[str, Any], namespace: str) -> AffinityTerm:
    by_labels = given.get("namespaceSelector")
    named = given.get("namespaces") or ()
    return AffinityTerm(
        given.get("topologyKey", ""),
        frozenset(named if named or by_labels is not None else (namespace,)),
        _selector(by_labels, "namespaceSelector"),
        _selector(given.get("labelSelector"), "labelSelector"),
    )


def _selector(given: Mapping[str, Any] | None, where: str) -> LabelSelector | None:
    return None if given is None else label_selector.parse(given, where)
