"""InterPodAffinity: pods that have to be, or like to be, with others or apart. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Codes, Mask, Rows
from koord_scheduler.columns.held_terms import HeldTerm, TermKind
from koord_scheduler.columns.nodes import NodeColumns, PodUsage
from koord_scheduler.columns.pod_counts import AffinitySelector, PodCounter
from koord_scheduler.columns.usage_table import CountOf
from koord_scheduler.framework.plugin import (
    MAX_SCORE,
    AcrossNodes,
    Limit,
    Plugin,
    Reason,
    first_reasons,
    without_reason,
)
from koord_scheduler.objects.pod_affinity import AffinityTerm

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

    def __init__(self, settings: InterPodAffinitySettings | None = None) -> None:
        self._settings = settings or InterPodAffinitySettings()

    def across(self, pod: PodClass, nodes: NodeColumns) -> AcrossNodes | None:
        return _Affinity(pod, nodes, self._settings)

    def limits(
        self, pod: PodClass, nodes: NodeColumns, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit]:
        return _Affinity(pod, nodes, self._settings).limits(rows, nominated)


class _Affinity:
    """The terms of one class, and those of placed pods that mean it."""

    def __init__(
        self, pod: PodClass, nodes: NodeColumns, settings: InterPodAffinitySettings
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

    def filter(self, rows: Rows) -> Mask | None:
        self._refresh()
        if self._together is None and not self._apart and not self._held_apart:
            return None
        return without_reason(self._rejections(rows), rows)

    def reasons(self, rows: Rows) -> list[Reason]:
        return first_reasons(self._rejections(rows))

    def _rejections(self, rows: Rows) -> Iterator[Reason]:
        self._refresh()
        if self._together is not None:
            is_together = self._is_together(self._together, rows)
            yield Reason(_NOT_TOGETHER, ~is_together, resolvable=False)
        for term, counter in zip(self._pod.affinity.anti, self._apart, strict=True):
            yield Reason(_NOT_APART, self._around(term.key, counter.rows, rows) > 0)
        for held in self._held_apart:
            pods = self._nodes.terms.rows(held)
            yield Reason(_HELD_APART, self._around(held.term.key, pods, rows) > 0)

    def limits(self, rows: Rows, nominated: Iterable[PodUsage]) -> Sequence[Limit]:
        self._refresh()
        found = []
        joining = {held for usage in nominated for held in usage.terms if self._keeps_off(held)}
        for held in joining.union(self._held_apart):
            there = self._nodes.terms.rows(held)
            found.append(self._limit_apart(partial(_count_term, held), held.term, there, rows))
        for term, counter in zip(self._pod.affinity.anti, self._apart, strict=True):
            count = partial(_count_pod, self._selector([term]))
            found.append(self._limit_apart(count, term, counter.rows, rows))
        if self._together is not None:
            found += self._limits_together(self._together, rows)
        return found

    def _limit_apart(self, of: CountOf, term: AffinityTerm, pods: Amounts, rows: Rows) -> Limit:
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
            room = self._around(term.key, counter.rows, rows) - 1
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
            raw += weight * self._around(term.key, counter.rows, rows)
        for weight, held in self._held_preferences:
            raw += weight * self._around(held.term.key, self._nodes.terms.rows(held), rows)
        if not len(raw) or raw.max() == raw.min():
            return None
        least, most = raw.min(), raw.max()
        found: Amounts = np.trunc(MAX_SCORE * ((raw - least) / (most - least)))
        return found

    def _is_together(self, counter: PodCounter, rows: Rows) -> Mask:
        """Whether the pods that all required terms mean are in the same domain, of each term.

        Where there is no such pod yet, the first one that the terms mean itself may be anywhere
        where there are such domains.
        """
        in_domains = np.ones(len(rows), np.bool_)
        with_pods = np.ones(len(rows), np.bool_)
        nobody = True
        for term in self._pod.affinity.required:
            codes = self._codes(term.key)
            in_domains &= codes[rows] >= 0
            with_pods &= self._around(term.key, counter.rows, rows) > 0
            nobody &= not counter.rows[codes >= 0].any()
        if nobody and self._means_itself(self._pod.affinity.required):
            return in_domains
        return in_domains & with_pods

    def _around(self, key: str, pods: Amounts, rows: Rows) -> Amounts:
        """How many of ``pods`` are in the same domain of a label as each of these rows."""
        column = self._nodes.labels.column(key)
        found: Amounts = column.sums(pods)[column.codes[rows]]
        return found

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
