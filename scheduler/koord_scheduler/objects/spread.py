"""Topology spread constraints of pods, compiled. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from koord_model import label_selector
from koord_model.label_selector import LabelSelector, Operator, Requirement

from koord_scheduler.objects.pod import TopologySpreadConstraint


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """Even spread of pods over the domains of a label of nodes.

    ``is_hard`` constraints keep pods off nodes, others make nodes worse. ``selector`` says which
    pods count, none where it is ``None``; ``match_keys`` names labels in which these pods have
    to equal the one that is placed. Nodes count whatever their taints are, unless
    ``honors_taints``, and only those that the pod's node affinity means, if ``honors_affinity``.
    """

    key: str
    max_skew: int
    is_hard: bool
    selector: LabelSelector | None
    match_keys: tuple[str, ...] = ()
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False

    def selects(self, labels: Mapping[str, str]) -> LabelSelector | None:
        """Return the selector of pods that count beside one with these labels; ``None``: none."""
        if self.selector is None or not self.match_keys:
            return self.selector
        equal = tuple(
            Requirement(key, Operator.IN, frozenset({labels[key]}))
            for key in self.match_keys
            if key in labels
        )
        return LabelSelector((*equal, *self.selector.requirements))


def spread_constraint(given: TopologySpreadConstraint) -> SpreadConstraint:
    """A constraint of a pod's ``topologySpreadConstraints``.

    Raises:
        ValueError: its selector is not one.
    """
    selector = given.label_selector
    return SpreadConstraint(
        given.topology_key,
        given.max_skew,
        given.when_unsatisfiable == "DoNotSchedule",
        None if selector is None else label_selector.parse(selector, "labelSelector"),
        tuple(given.match_label_keys or ()),
        1 if given.min_domains is None else given.min_domains,
        given.node_affinity_policy != "Ignore",
        given.node_taints_policy == "Honor",
    )
