"""Selection of nodes by labels and names: nodeSelector and nodeAffinity. No IO.

As in Kubernetes: terms are alternatives, what a term says has to hold together, and a term
without anything matches no node. ``Gt`` and ``Lt`` compare whole numbers; a label that is not one
matches neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from koord_model.whole_number import whole_number


@dataclass(frozen=True, slots=True)
class NodeRequirement:
    """One condition on a label of a node; ``operator`` is In, NotIn, Exists, …, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def allows(self, value: str | None) -> bool:
        """True if a node with this value of the label is selected; ``None`` if it has no such."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
            case _:
                return False

    def _compares(self, value: str | None) -> bool:
        if len(self.values) != 1 or value is None:
            return False
        here, there = whole_number(value), whole_number(self.values[0])
        if here is None or there is None:
            return False
        return here > there if self.operator == "Gt" else here < there


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Conditions on labels, and on the node's name; all have to hold."""

    labels: tuple[NodeRequirement, ...] = ()
    names: tuple[NodeRequirement, ...] = ()

    def node_names(self) -> frozenset[str] | None:
        """The names that a node may have; ``None`` where the term does not list them."""
        sets = [frozenset(name.values) for name in self.names if name.operator == "In"]
        return frozenset.intersection(*sets) if sets else None


@dataclass(frozen=True, slots=True)
class RequiredNodes:
    """The nodes on which a pod may run: by ``nodeSelector``, and by any of ``terms``.

    ``terms`` is ``None`` where the pod has no required node affinity.
    """

    selector: tuple[NodeRequirement, ...] = ()
    terms: tuple[NodeSelectorTerm, ...] | None = None

    def node_names(self) -> frozenset[str] | None:
        """The names that a node may have; ``None`` where not all ``terms`` list them."""
        by_term = [term.node_names() for term in self.terms or ()]
        listed = [one for one in by_term if one is not None]
        return frozenset().union(*listed) if by_term and len(listed) == len(by_term) else None


@dataclass(frozen=True, slots=True)
class PreferredNodes:
    """Nodes that a pod would rather run on: weights, each with its term."""

    terms: tuple[tuple[int, NodeSelectorTerm], ...] = ()


def required_nodes(
    node_selector: Mapping[str, str] | None, affinity: Mapping[str, Any] | None
) -> RequiredNodes:
    """Return the requirements on nodes of a pod's ``nodeSelector`` and ``affinity``."""
    selector = tuple(
        NodeRequirement(key, "In", (value,)) for key, value in sorted((node_selector or {}).items())
    )
    required = _node_affinity(affinity).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return RequiredNodes(selector)
    return RequiredNodes(selector, node_selector_terms(required))


def node_selector_terms(given: Mapping[str, Any]) -> tuple[NodeSelectorTerm, ...]:
    """The alternatives of a NodeSelector, as the API has it."""
    return tuple(map(_term, given.get("nodeSelectorTerms") or ()))


def preferred_nodes(affinity: Mapping[str, Any] | None) -> PreferredNodes:
    """Return the preferences on nodes of a pod's ``affinity``; a weight of 0 says nothing."""
    preferred = _node_affinity(affinity).get("preferredDuringSchedulingIgnoredDuringExecution")
    weighted = ((one.get("weight", 0), one.get("preference") or {}) for one in preferred or ())
    return PreferredNodes(tuple((weight, _term(term)) for weight, term in weighted if weight))


def _node_affinity(affinity: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return (affinity or {}).get("nodeAffinity") or {}


def _term(given: Mapping[str, Any]) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        _requirements(given.get("matchExpressions")), _requirements(given.get("matchFields"))
    )


def _requirements(given: list[Mapping[str, Any]] | None) -> tuple[NodeRequirement, ...]:
    return tuple(
        NodeRequirement(one.get("key", ""), one.get("operator", ""), tuple(one.get("values") or ()))
        for one in given or ()
    )
