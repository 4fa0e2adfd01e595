"""How many of the pods on each node a selector means. No IO."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakValueDictionary, ref

import numpy as np
from koord_model.label_selector import LabelSelector, Operator

from koord_scheduler.columns.arrays import Amounts, lengthened
from koord_scheduler.columns.pod_labels import PodLabel, PodLabelIndex, PodLabels


class PodSelector(Hashable, Protocol):
    """Which pods are counted."""

    @property
    def label(self) -> PodLabel | None:
        """A label that all pods have that are meant, if there is one."""
        ...

    def matches(self, pod: PodLabels) -> bool:
        """Whether a pod is meant."""
        ...


@dataclass(frozen=True, slots=True)
class SpreadSelector:
    """Pods of a namespace by their labels; those that are leaving are not meant."""

    namespace: str
    selector: LabelSelector

    @property
    def label(self) -> PodLabel | None:
        """A label that all pods have that are meant, if there is one."""
        return _required_label(self.namespace, self.selector)

    def matches(self, pod: PodLabels) -> bool:
        """Whether a pod is meant."""
        if pod.is_leaving or pod.namespace != self.namespace:
            return False
        return self.selector.matches(dict(pod.labels))


@dataclass(frozen=True, slots=True)
class AffinitySelector:
    """Pods that all parts mean: by their namespace (``None``: any) and labels (``None``: none)."""

    parts: tuple[tuple[frozenset[str] | None, LabelSelector | None], ...]

    @property
    def label(self) -> PodLabel | None:
        """A label that all pods have that are meant, if there is one."""
        for namespaces, selector in self.parts:
            if namespaces is not None and len(namespaces) == 1 and selector is not None:
                return _required_label(next(iter(namespaces)), selector)
        return None

    def matches(self, pod: PodLabels) -> bool:
        """Whether a pod is meant."""
        labels = dict(pod.labels)
        return all(
            (namespaces is None or pod.namespace in namespaces)
            and selector is not None
            and selector.matches(labels)
            for namespaces, selector in self.parts
        )


class PodCounter:
    """How many pods a selector means, by row; kept up to date for as long as somebody has it."""

    def __init__(self, length: int) -> None:
        self.rows: Amounts = np.zeros(length)


class PodCounts:
    """Pods by their labels and row, and counters of those that somebody asks for.

    A pod that comes or goes is held against each selector once for all pods with its labels.
    Counters end with those who have them. Classes come and go, and a counter costs a look at all
    pods: so those that were asked for last stay, up to ``most_bytes``.
    """

    def __init__(self, length: int, most_bytes: int = 16 << 20) -> None:
        self._length = length
        self._most_bytes = most_bytes
        self._rows: dict[PodLabels, dict[int, int]] = {}
        self._counters: WeakValueDictionary[PodSelector, PodCounter] = WeakValueDictionary()
        self._last: deque[PodCounter] = deque()
        self._counting: dict[PodLabels, list[ref[PodCounter]]] = {}
        self._index = PodLabelIndex()

    def lengthen(self, length: int) -> None:
        """Make room for more rows, which have no pods yet."""
        self._length = length
        for counter in self._counters.values():
            counter.rows = lengthened(counter.rows, length, 0)

    def add(self, row: int, pod: PodLabels, number: int = 1) -> None:
        """A pod with these labels is on a row's node, or with -1 for ``number`` not any more."""
        rows = self._rows.get(pod)
        if rows is None:
            rows = self._rows[pod] = {}
            self._index.add(pod)
        rows[row] = rows.get(row, 0) + number
        if not rows[row]:
            del rows[row]
        for one in self._counters_of(pod):
            counter = one()
            if counter is not None:
                counter.rows[row] += number
        if not rows:
            del self._rows[pod]
            del self._counting[pod]
            self._index.remove(pod)

    def counter(self, selector: PodSelector) -> PodCounter:
        """The counter of a selector; for as long as it is held, it is kept up to date."""
        found = self._counters.get(selector)
        if found is None:
            found = self._counters[selector] = self._count(selector)
        self._last.append(found)
        while len(self._last) * 8 * self._length > self._most_bytes:
            self._last.popleft()
        return found

    def _count(self, selector: PodSelector) -> PodCounter:
        made = PodCounter(self._length)
        label = selector.label
        for pod in self._rows if label is None else self._index.find(label, self._rows):
            if selector.matches(pod):
                living = [one for one in self._counting[pod] if one() is not None]
                self._counting[pod] = [*living, ref(made)]
                for row, number in self._rows[pod].items():
                    made.rows[row] += number
        return made

    def _counters_of(self, pod: PodLabels) -> list[ref[PodCounter]]:
        found = self._counting.get(pod)
        if found is None:
            matching = (one for selector, one in self._counters.items() if selector.matches(pod))
            found = self._counting[pod] = [ref(one) for one in matching]
        return found


def _required_label(namespace: str, selector: LabelSelector) -> PodLabel | None:
    for one in selector.requirements:
        if one.operator is Operator.IN and len(one.values) == 1:
            return PodLabel(namespace, one.key, *one.values)
    return None
