"""Terms of the pods on each node about other pods. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from koord_scheduler.objects.pod_affinity import AffinityTerm, PodAffinity
from koord_scheduler.state.pod_counts import PodCounter
from koord_scheduler.state.selected_labels import Select, nobody


class TermKind(Enum):
    """Kind of a term about other pods."""

    REQUIRED = "required"
    ANTI = "anti"
    PREFERRED = "preferred"


class HeldTerm(NamedTuple):
    """A term of pods that are placed; ``weight`` is that of a preference, negative for apart."""

    kind: TermKind
    term: AffinityTerm
    weight: int = 0


class HeldTerms:
    """Terms of placed pods, and how many pods of each row have them.

    ``version`` changes when there is a term that no pod had before, or has any more.
    """

    def __init__(self, length: int, select: Select = nobody) -> None:
        """``select`` hears by which labels terms select pods."""
        self.version = 0
        self._select = select
        self._length = length
        self._counters: dict[HeldTerm, PodCounter] = {}

    def __iter__(self) -> Iterator[HeldTerm]:
        return iter(self._counters)

    def lengthen(self, length: int) -> None:
        """Make room for more rows, which have no pods yet."""
        self._length = length
        for counter in self._counters.values():
            counter.lengthen(length)

    def counter(self, term: HeldTerm) -> PodCounter:
        """Return the counter of each row's pods with a term."""
        found = self._counters.get(term)
        return found if found is not None else PodCounter(self._length)

    def add(self, row: int, terms: Iterable[HeldTerm], number: int = 1) -> None:
        """A pod with these terms is on a row's node, or with -1 for ``number`` not any more."""
        for term in terms:
            counter = self._counters.get(term)
            if counter is None:
                counter = self._counters[term] = PodCounter(self._length)
                self.version += 1
                self._select([term.term.selector])
            counter.add(row, number)
            if not counter.total:
                del self._counters[term]
                self.version += 1


def held_terms(affinity: PodAffinity) -> tuple[HeldTerm, ...]:
    """Return a pod's terms about others once it is placed."""
    return (
        *(HeldTerm(TermKind.REQUIRED, term) for term in affinity.required),
        *(HeldTerm(TermKind.ANTI, term) for term in affinity.anti),
        *(HeldTerm(TermKind.PREFERRED, term, weight) for weight, term in affinity.preferred),
    )
