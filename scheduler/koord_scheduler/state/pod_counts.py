"""Number of the pods on each node that a selector selects. No IO."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Protocol
from weakref import ref

import numpy as np
from koord_model.label_selector import LabelSelector, Operator

from koord_scheduler.state.arrays import Amounts, lengthened
from koord_scheduler.state.domains import DomainCounts, Domains
from koord_scheduler.state.pod_labels import PodLabel, PodLabelIndex, PodLabels


class PodSelector(Hashable, Protocol):
    """Selection of the pods that are counted."""

    @property
    def label(self) -> PodLabel | None:
        """A label that all pods have that are meant, if there is one."""
        ...

    def matches(self, pod: PodLabels) -> bool:
        """True if a pod is selected."""
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
        """True if a pod is selected."""
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
        """True if a pod is selected."""
        labels = dict(pod.labels)
        return all(
            (namespaces is None or pod.namespace in namespaces)
            and selector is not None
            and selector.matches(labels)
            for namespaces, selector in self.parts
        )


class PodCounter:
    """Number of some pods on each row, and the ``total``."""

    def __init__(self, length: int) -> None:
        self.rows: Amounts = np.zeros(length)
        self.total = 0
        self._in_domains: list[tuple[ref[Domains], DomainCounts]] = []

    @property
    def size(self) -> int:
        """Bytes that it keeps."""
        return self.rows.nbytes + sum(in_domain.by_code.nbytes for _, in_domain in self._in_domains)

    def lengthen(self, length: int) -> None:
        """Make room for more rows; what is known of domains ends with the version of the nodes."""
        self.rows = lengthened(self.rows, length, 0)
        self._in_domains = []

    def add(self, row: int, number: int) -> None:
        """So many pods more are on a row, or fewer."""
        self.rows[row] += number
        self.total += number
        for _, counts in self._in_domains:
            counts.add(row, number)

    def in_domains(self, domains: Domains) -> DomainCounts:
        """The pods by domain, kept up to date for as long as ``domains`` are those of the nodes."""
        kept = []
        for one, counts in self._in_domains:
            known = one()
            if known is domains:
                return counts
            if known is not None and known.version == domains.version:
                kept.append((one, counts))
        made = DomainCounts(domains, self.rows if self.total else None)
        self._in_domains = [*kept, (ref(domains), made)]
        return made


class PodCounts:
    """Pods by their labels and row, and counters of those that somebody asks for.

    A pod that comes or goes is held once, for all pods with its labels, against the selectors that
    may mean it: those that require a label of it, and those that require none.
    Counters end with those who have them. Classes come and go, and a counter costs a look at all
    pods: so those that were asked for last stay, up to ``most_bytes``.
    """

    def __init__(self, length: int, most_bytes: int = 16 << 20) -> None:
        self._length = length
        self._most_bytes = most_bytes
        self._rows: dict[PodLabels, dict[int, int]] = {}
        self._counters: dict[PodLabel | None, dict[PodSelector, ref[PodCounter]]] = {}
        self._last: deque[PodCounter] = deque()
        self._counting: dict[PodLabels, list[ref[PodCounter]]] = {}
        self._index = PodLabelIndex()
        self._keys: Counter[str] = Counter()
        self._dead: list[PodSelector] = []

    def lengthen(self, length: int) -> None:
        """Make room for more rows, which have no pods yet."""
        self._length = length
        for counters in self._counters.values():
            for one in counters.values():
                if (counter := one()) is not None:
                    counter.lengthen(length)

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
                counter.add(row, number)
        if not rows:
            del self._rows[pod]
            del self._counting[pod]
            self._index.remove(pod)

    def counter(self, selector: PodSelector) -> PodCounter:
        """The counter of a selector; for as long as it is held, it is kept up to date."""
        label = selector.label
        known = self._counters.get(label, {}).get(selector)
        found = known() if known is not None else None
        if found is None:
            found = self._count(selector, label)
        self._last.append(found)
        while len(self._last) * 8 * self._length > self._most_bytes:
            self._last.popleft()
        return found

    def _count(self, selector: PodSelector, label: PodLabel | None) -> PodCounter:
        self._forget_dead()
        made = PodCounter(self._length)
        made_ref = ref(made, lambda _: self._dead.append(selector))
        if label is not None and label not in self._counters:
            self._keys[label.key] += 1
        self._counters.setdefault(label, {})[selector] = made_ref
        for pod in self._rows if label is None else self._index.find(label, self._rows):
            if selector.matches(pod):
                living = [one for one in self._counting[pod] if one() is not None]
                self._counting[pod] = [*living, made_ref]
                for row, number in self._rows[pod].items():
                    made.add(row, number)
        return made

    def _forget_dead(self) -> None:
        """Not at once when a counter ends, which may be while something here is looked up."""
        while self._dead:
            selector = self._dead.pop()
            label = selector.label
            counters = self._counters.get(label, {})
            known = counters.get(selector)
            if known is not None and known() is None:  # else there is another one by now
                del counters[selector]
                if not counters:
                    del self._counters[label]
                    self._forget_key(label)

    def _forget_key(self, label: PodLabel | None) -> None:
        """Index pods no longer by a key that no selector requires."""
        if label is None:
            return
        self._keys[label.key] -= 1
        if not self._keys[label.key]:
            del self._keys[label.key]
            self._index.forget(label.key)

    def _counters_of(self, pod: PodLabels) -> list[ref[PodCounter]]:
        found = self._counting.get(pod)
        if found is None:
            matching = (one for selector, one in self._that_may_mean(pod) if selector.matches(pod))
            found = self._counting[pod] = list(matching)
        return found

    def _that_may_mean(self, pod: PodLabels) -> Iterator[tuple[PodSelector, ref[PodCounter]]]:
        labels = (PodLabel(pod.namespace, key, value) for key, value in pod.labels)
        for label in (None, *labels):
            yield from self._counters.get(label, {}).items()


def _required_label(namespace: str, selector: LabelSelector) -> PodLabel | None:
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN and len(requirement.values) == 1:
            return PodLabel(namespace, requirement.key, *requirement.values)
    return None
