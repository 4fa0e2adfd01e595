"""Finds the reservations that may be for a pod by its labels, without looking at all. No IO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from koord_model.label_selector import Operator

from koord_scheduler.plugins.reservation.owners import OwnerMatcher
from koord_scheduler.plugins.reservation.reservation import Reservation

LabelPair = tuple[str, str]


class OwnerIndex:
    """Some reservations, by a label that their owners have to have; ``all`` in their order."""

    def __init__(self, reservations: Iterable[Reservation]) -> None:
        self.all = tuple(reservations)
        self._by_label: defaultdict[LabelPair, list[int]] = defaultdict(list)
        self._others: list[int] = []
        for place, one in enumerate(self.all):
            pairs = _pairs(one.matchers)
            if pairs is None:
                self._others.append(place)
            for pair in pairs or ():
                self._by_label[pair].append(place)

    def candidates(self, labels: Mapping[str, str]) -> list[Reservation]:
        """Those that may be for a pod with these labels, and perhaps some others; in order."""
        places = set(self._others)
        for pair in labels.items():
            places.update(self._by_label.get(pair, ()))
        return [self.all[place] for place in sorted(places)]


def _pairs(matchers: Iterable[OwnerMatcher]) -> set[LabelPair] | None:
    """Labels of which each owner has one; ``None`` where that cannot be said."""
    found: set[LabelPair] = set()
    for matcher in matchers:
        selector = matcher.selector
        required = selector.requirements if selector is not None else ()
        one = next((each for each in required if each.operator is Operator.IN), None)
        if one is None:
            return None
        found.update((one.key, value) for value in one.values)
    return found
