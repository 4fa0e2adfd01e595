"""The labels of namespaces. No IO."""

from __future__ import annotations

from collections.abc import Mapping

from koord_scheduler.objects.pod_affinity import AffinityTerm


class Namespaces:
    """Labels by namespace; ``version`` changes with each of them."""

    def __init__(self) -> None:
        self.version = 0
        self._labels: dict[str, Mapping[str, str]] = {}

    def set(self, name: str, labels: Mapping[str, str]) -> None:
        """The labels of a namespace, in place of those it had."""
        if self._labels.get(name) != labels:
            self._labels[name] = dict(labels)
            self.version += 1

    def remove(self, name: str) -> None:
        """Forget a namespace."""
        del self._labels[name]
        self.version += 1

    def labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; none if it is not known."""
        return self._labels.get(name, {})

    def of(self, term: AffinityTerm) -> frozenset[str] | None:
        """The namespaces that a term means; ``None`` for all of them."""
        by_labels = term.namespace_selector
        if by_labels is None:
            return term.namespaces
        if not by_labels.requirements:
            return None
        matching = (name for name, labels in self._labels.items() if by_labels.matches(labels))
        return term.namespaces.union(matching)
