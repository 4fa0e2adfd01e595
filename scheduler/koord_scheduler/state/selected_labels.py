"""The labels of pods by which somebody selects; by others no two pods are distinguished. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from koord_model.label_selector import LabelSelector

from koord_scheduler.state.pod_labels import PodLabels

Select = Callable[[Iterable[LabelSelector | None]], None]
"""Hears of selectors of pods."""
MOST_BYTES = 1 << 14
"""Of keys; where there are more, pods are distinguished by all of their labels."""


def nobody(selectors: Iterable[LabelSelector | None]) -> None:
    """Hear of selectors, and do nothing."""


class SelectedLabels:
    """Keys that some selector has named; ``version`` changes when there is one more.

    None is forgotten: selectors come and go with pods, and to tell pods apart anew costs a look at
    all of them.
    """

    def __init__(self) -> None:
        self.version = 0
        self._keys: set[str] = set()
        self._bytes = 0
        self._are_all = False

    def add(self, selectors: Iterable[LabelSelector | None]) -> None:
        """Somebody selects pods by these."""
        self.add_keys(
            requirement.key
            for selector in selectors
            if selector
            for requirement in selector.requirements
        )

    def add_keys(self, keys: Iterable[str]) -> None:
        """Somebody looks at the labels with these keys."""
        new = set(keys) - self._keys
        if not new or self._are_all:
            return
        self._keys |= new
        self._bytes += sum(map(len, new))
        self.version += 1
        if self._bytes > MOST_BYTES:
            self.add_all()

    def add_all(self) -> None:
        """Somebody may look at any label."""
        if not self._are_all:
            self._are_all = True
            self._keys = set()
            self.version += 1

    def of(self, pod: PodLabels) -> PodLabels:
        """Those labels of a pod by which it is distinguished."""
        if self._are_all:
            return pod
        keys = self._keys
        labels = tuple([label for label in pod.labels if label[0] in keys])
        return pod if len(labels) == len(pod.labels) else pod._replace(labels=labels)
