"""InterPodAffinity: pods that have to be, or like to be, with others or apart. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from koord_scheduler.objects.pod_affinity import AffinityTerm
from koord_scheduler.plugin import (
    MAX_SCORE,
    AcrossNodes,
    Limit,
    Plugin,
    Reason,
    first_reasons,
)
from koord_scheduler.state.arrays import Amounts, Codes, Mask, Rows, both, span
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.domains import Domains, NodeScope
from koord_scheduler.state.held_terms import HeldTerm, TermKind
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_counts import AffinitySelector, PodCounter
from koord_scheduler.state.pod_usage import PodUsage
from koord_scheduler.state.usage_table import CountOf

_NOT_TOGETHER = "node(s) didn't match pod affinity rules"
_NOT_APART = "node(s) didn't match pod anti-affinity rules"
_HELD_APART = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass(frozen=True)
class InterPodAffinitySettings:
    """``hard_weight`` is what a placed pod's required term counts for those that it means.

    With ``ignores_existing``, preferences of placed pods do not count for pods without any.
    """

    hard_weight: int = 1
    ignores_existing: bool = False


class InterPodAffinity(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "InterPodAffinity"
    helped_by: ClassVar[str] = "pods that it has to be with, or the end of pods that keep it away"
    helped_by_nodes: ClassVar[str] = "pods that it has to be with"
    reads_labels: ClassVar[bool] = False

    def __init__(self, settings: InterPodAffinitySettings | None = None) -> None:
        self._settings = settings or InterPodAffinitySettings()

    def across(self, pod: PodClass, nodes: ClusterState) -> AcrossNodes | None:
        return _Affinity(pod, nodes, self._settings)

    def limits(
        self, pod: PodClass, nodes: ClusterState, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit]:
        return _Affinity(pod, nodes, self._settings).limits(rows, nominated)


class _Affinity:
    """The terms of one class, and those of placed pods that mean it."""

    def __init__(
        self, pod: PodClass, nodes: ClusterState, settings: InterPodAffinitySettings
    ) -> None:
        self._pod = pod
        self._nodes = nodes
        self._settings = settings
        self._versions = -1, -1
        self._together: PodCounter | None = None
        self._apart: list[PodCounter] = []
        self._preferred: list[PodCounter] = []
        self._held_apart: list[HeldTerm] = []
        self._held_preferences: list[tuple[int, HeldTerm]] = []

    @property
    def size(self) -> int:
        """Bytes that its counters keep."""
        counters = (*self._apart, *self._preferred, self._together)
        return sum(counter.size for counter in counters if counter is not None)

    def filter(self, rows: Rows) -> Mask | None:
        self._refresh()
        found: Mask | None = None
        for _, domains, holds in self._conditions():
            found = both(found, domains.rows_where(holds, rows))
        return found

    def reasons(self, rows: Rows) -> list[Reason]:
        self._refresh()
        by_text: dict[str, Mask] = {}
        for text, domains, holds in self._conditions():
            rejected = ~holds[domains.codes[rows]]
            by_text[text] = by_text.get(text, np.zeros(len(rows), np.bool_)) | rejected
        return first_reasons(
            Reason(text, rejected, resolvable=text != _NOT_TOGETHER)
            for text, rejected in by_text.items()
        )

    def _conditions(self) -> Iterator[tuple[str, Domains, Mask]]:
        """Reasons for rejecting nodes, with the domains where the term holds.

        One more at the end is for nodes without a domain.
        """
        if self._together is not None:
            yield from self._where_together(self._together)
        for term, counter in zip(self._pod.affinity.anti, self._apart, strict=True):
            domains, pods = self._in_domains(term.key, counter)
            yield _NOT_APART, domains, pods == 0
        for held in self._held_apart:
            domains, pods = self._in_domains(held.term.key, self._nodes.terms.counter(held))
            yield _HELD_APART, domains, pods == 0

    def _where_together(self, counter: PodCounter) -> Iterator[tuple[str, Domains, Mask]]:
        """The pods that all required terms mean are in the same domain, of each term.

        Where there is no such pod yet, the first one that the terms mean itself may be anywhere
        where there are such domains.
        """
        required = self._pod.affinity.required
        found = [self._in_domains(term.key, counter) for term in required]
        is_first = not any(pods.any() for _, pods in found) and self._means_itself(required)
        for domains, pods in found:
            holds = np.ones(len(pods), np.bool_) if is_first else pods > 0
            holds[-1] = False
            yield _NOT_TOGETHER, domains, holds

    def limits(self, rows: Rows, nominated: Iterable[PodUsage]) -> Sequence[Limit]:
        self._refresh()
        found = []
        joining = {held for usage in nominated for held in usage.terms if self._keeps_off(held)}
        for held in joining.union(self._held_apart):
            there = self._nodes.terms.counter(held)
            found.append(self._limit_apart(partial(_count_term, held), held.term, there, rows))
        for term, counter in zip(self._pod.affinity.anti, self._apart, strict=True):
            count = partial(_count_pod, self._selector([term]))
            found.append(self._limit_apart(count, term, counter, rows))
        if self._together is not None:
            found += self._limits_together(self._together, rows)
        return found

    def _limit_apart(self, of: CountOf, term: AffinityTerm, pods: PodCounter, rows: Rows) -> Limit:
        """None of the ``pods`` may be in the domain, if there is one."""
        has_key = self._codes(term.key)[rows] >= 0
        return Limit(of, np.where(has_key, -self._around(term.key, pods, rows), np.inf))

    def _limits_together(self, counter: PodCounter, rows: Rows) -> Iterable[Limit]:
        """A pod that the required terms mean is needed, and leaves less room as it goes."""
        required = self._pod.affinity.required
        only_here = np.full(len(rows), self._means_itself(required))
        for term in required:
            has_key = self._codes(term.key) >= 0
            here = np.where(has_key[rows], counter.rows[rows], 0.0)
            only_here &= counter.rows[has_key].sum() == here
        for term in required:
            room = self._around(term.key, counter, rows) - 1
            room = np.where(only_here, np.inf, np.where(room < 0, -np.inf, room))
            room[self._codes(term.key)[rows] < 0] = -np.inf
            yield Limit(partial(_need_pod, self._selector(required)), room)

    def score(self, rows: Rows) -> Amounts | None:
        self._refresh()
        if not self._preferred and not self._held_preferences:
            return None
        raw = np.zeros(len(rows))
        preferred = zip(self._pod.affinity.preferred, self._preferred, strict=True)
        for (weight, term), counter in preferred:
            raw += weight * self._around(term.key, counter, rows)
        for weight, held in self._held_preferences:
            raw += weight * self._around(held.term.key, self._nodes.terms.counter(held), rows)
        if not len(raw) or raw.max() == raw.min():
            return None
        least, most = raw.min(), raw.max()
        found: Amounts = np.trunc(MAX_SCORE * ((raw - least) / (most - least)))
        return found

    def _around(self, key: str, counter: PodCounter, rows: Rows) -> Amounts:
        """Return the number of some pods in the same domain of a label as each of these rows."""
        domains, pods = self._in_domains(key, counter)
        found: Amounts = pods[domains.codes[span(rows)]]
        return found

    def _in_domains(self, key: str, counter: PodCounter) -> tuple[Domains, Amounts]:
        """The domains of a label, and how many of some pods are in each."""
        domains = self._nodes.domains(key, NodeScope((key,), None, None))
        return domains, counter.in_domains(domains).by_code

    def _codes(self, key: str) -> Codes:
        return self._nodes.labels.column(key).codes

    def _refresh(self) -> None:
        nodes, affinity = self._nodes, self._pod.affinity
        versions = nodes.namespaces.version, nodes.terms.version
        if versions == self._versions:
            return
        self._versions = versions
        if affinity.required:
            self._together = self._counter(affinity.required)
        self._apart = [self._counter([term]) for term in affinity.anti]
        self._preferred = [self._counter([term]) for _, term in affinity.preferred]
        meant = [held for held in nodes.terms if self._is_meant(held.term)]
        self._held_apart = [held for held in meant if held.kind is TermKind.ANTI]
        preferences = [held for held in meant if held.kind is not TermKind.ANTI]
        if self._settings.ignores_existing and not affinity.preferred:
            preferences = []
        weighted = ((self._weight(held), held) for held in preferences)
        self._held_preferences = [(weight, held) for weight, held in weighted if weight]

    def _weight(self, held: HeldTerm) -> int:
        return self._settings.hard_weight if held.kind is TermKind.REQUIRED else held.weight

    def _counter(self, terms: Sequence[AffinityTerm]) -> PodCounter:
        return self._nodes.pods.counter(self._selector(terms))

    def _selector(self, terms: Sequence[AffinityTerm]) -> AffinitySelector:
        namespaces = self._nodes.namespaces
        return AffinitySelector(tuple((namespaces.of(term), term.selector) for term in terms))

    def _is_meant(self, term: AffinityTerm) -> bool:
        labels = self._pod.labels
        by_namespace = self._nodes.namespaces.labels(labels.namespace)
        return term.means(labels.namespace, by_namespace) and term.selects(dict(labels.labels))

    def _keeps_off(self, held: HeldTerm) -> bool:
        return held.kind is TermKind.ANTI and self._is_meant(held.term)

    def _means_itself(self, terms: Sequence[AffinityTerm]) -> bool:
        return all(map(self._is_meant, terms))


def _count_term(term: HeldTerm, usage: PodUsage) -> float:
    return usage.terms.count(term)


def _count_pod(selector: AffinitySelector, usage: PodUsage) -> float:
    return float(selector.matches(usage.labels))


def _need_pod(selector: AffinitySelector, usage: PodUsage) -> float:
    return -_count_pod(selector, usage)
