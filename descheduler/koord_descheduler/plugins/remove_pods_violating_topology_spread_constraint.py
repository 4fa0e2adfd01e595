"""RemovePodsViolatingTopologySpreadConstraint of the upstream descheduler. No IO."""

from __future__ import annotations

from collections import defaultdict
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from koord_model.label_selector import LabelSelector
from koord_scheduler.objects.node_selector import RequiredNodes
from koord_scheduler.objects.pod import Toleration
from koord_scheduler.objects.spread import SpreadConstraint
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_counts import SpreadSelector

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.framework.selected_pods import SelectedPods, SelectedPodsArgs
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.cluster import KnownPod
from koord_descheduler.plugin import DeschedulerPlugin

_Policy = Literal["DoNotSchedule", "ScheduleAnyway"]


class SpreadConstraintArgs(SelectedPodsArgs, frozen=True):
    """Arguments of RemovePodsViolatingTopologySpreadConstraint.

    ``topologyBalanceNodeFit`` holds anyway: rounds find a place for each pod.
    """

    constraints: tuple[_Policy, ...] = ("DoNotSchedule",)
    topology_balance_node_fit: bool = True


class _Spread(NamedTuple):
    """Pods that a constraint counts together, on the nodes that count for those that have it.

    Without ``required`` and ``tolerations`` the constraint honours neither.
    """

    namespace: str
    constraint: SpreadConstraint
    selector: LabelSelector | None
    required: RequiredNodes | None
    tolerations: tuple[Toleration, ...] | None

    @classmethod
    def of(cls, pod: KnownPod, pod_class: PodClass, constraint: SpreadConstraint) -> _Spread:
        """The pods that count for one that has a constraint."""
        return cls(
            pod.view.namespace,
            constraint,
            constraint.selects(pod.view.template.labels),
            pod_class.required if constraint.honors_affinity else None,
            pod_class.tolerations if constraint.honors_taints else None,
        )


class RemovePodsViolatingTopologySpreadConstraint(DeschedulerPlugin):
    """Upstream's plugin of that name: pods go from the fullest domains to the emptiest ones."""

    name: ClassVar[str] = "RemovePodsViolatingTopologySpreadConstraint"
    Args: ClassVar[type[SpreadConstraintArgs]] = SpreadConstraintArgs

    def __init__(self, args: SpreadConstraintArgs) -> None:
        self._pods = SelectedPods(args)
        self._hard = "DoNotSchedule" in args.constraints
        self._soft = "ScheduleAnyway" in args.constraints

    def balance(self, cluster: ProfileRound) -> None:
        spreads: dict[_Spread, None] = {}
        for pod in self._pods.of(cluster):
            waiting = pod.replacement.waiting
            if waiting is None or pod.view.has_ended:
                continue
            for constraint in waiting.pod_class.spread:
                if self._hard if constraint.is_hard else self._soft:
                    spreads[_Spread.of(pod, waiting.pod_class, constraint)] = None
        rows = cluster.virtual.rows(cluster.nodes)
        for spread in spreads:
            nodes = _nodes(cluster, spread, rows)
            if _skew(cluster, spread, nodes) > spread.constraint.max_skew:
                _Domains(cluster, spread, nodes, self._pods).balance()


class _Domains:
    """The pods of one constraint by domain."""

    def __init__(
        self, cluster: ProfileRound, spread: _Spread, nodes: Rows, pods: SelectedPods
    ) -> None:
        self._cluster = cluster
        self._spread = spread
        names = map(cluster.cluster.scheduler.nodes.name, nodes.tolist())
        key = spread.constraint.key
        self._domain_of = {name: cluster.nodes[name].labels[key] for name in names}
        self._pods: dict[str, list[KnownPod]] = {name: [] for name in self._domain_of.values()}
        self._movable: dict[str, list[KnownPod]] = defaultdict(list)
        for node, domain in self._domain_of.items():
            for pod in cluster.pods_on(node):
                if self._counts(pod.view):
                    self._pods[domain].append(pod)
                    if pods.selects(pod.view) and _has(pod, spread.constraint):
                        self._movable[domain].append(pod)
        self._counts_by_domain = {name: len(found) for name, found in self._pods.items()}

    def _counts(self, pod: ObservedPod) -> bool:
        selector = self._spread.selector
        is_there = not pod.has_ended and pod.deleted is None
        is_meant = selector is not None and selector.matches(pod.template.labels)
        return is_there and is_meant and pod.namespace == self._spread.namespace

    def balance(self) -> None:
        """Move pods until the domains differ by no more than ``maxSkew``, or none can go."""
        counts, most = self._counts_by_domain, self._spread.constraint.max_skew
        for domain in sorted(counts, key=lambda name: (-counts[name], name)):
            for pod in sorted(self._movable[domain], key=_least_important_first):
                if counts[domain] - min(counts.values()) <= most:
                    break
                self._move(pod, domain)

    def _move(self, pod: KnownPod, domain: str) -> None:
        counts = self._counts_by_domain

        def accepts(node: str) -> str:
            target = self._domain_of.get(node)
            if target is None:
                return "it has no domain of the constraint"
            has = counts[target]
            return f"{target} has {has} of these pods" if has + 1 >= counts[domain] else ""

        key, skew = self._spread.constraint.key, self._spread.constraint.max_skew
        least = min(counts.values())
        reason = f"{key} {domain} has {counts[domain]} of these pods, another {least}"
        if self._cluster.move(pod, f"{reason}: maxSkew is {skew}", accepts=accepts):
            counts[domain] -= 1
            counts[self._domain_of[self._cluster.virtual.node_of(pod.view.key)]] += 1


def _nodes(cluster: ProfileRound, spread: _Spread, among: Mask) -> Rows:
    """The rows that count for a constraint: they have its label, and its pods may go there."""
    state = cluster.cluster.scheduler.nodes
    rows = np.flatnonzero(among & (state.labels.column(spread.constraint.key).codes >= 0))
    if spread.required is not None:
        rows = rows[state.matches(spread.required, rows)]
    if spread.tolerations is not None:
        rows = rows[state.untolerated(spread.tolerations).of(rows) == 0]
    return rows


def _skew(cluster: ProfileRound, spread: _Spread, rows: Rows) -> float:
    """The number of pods by which the domains differ."""
    if spread.selector is None or not len(rows):
        return 0.0
    state = cluster.cluster.scheduler.nodes
    codes = state.labels.column(spread.constraint.key).codes[rows]
    counter = state.pods.counter(SpreadSelector(spread.namespace, spread.selector))
    pods = np.bincount(codes, counter.rows[rows])[np.unique(codes)]
    return float(pods.max() - pods.min())


def _has(pod: KnownPod, constraint: SpreadConstraint) -> bool:
    waiting = pod.replacement.waiting
    return waiting is not None and constraint in waiting.pod_class.spread


def _least_important_first(pod: KnownPod) -> tuple[int, float, str]:
    return pod.view.template.priority or 0, -pod.view.created, pod.view.key
