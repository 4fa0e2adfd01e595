"""Labels of pods, and which pods have a label. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class PodLabels(NamedTuple):
    """Part of a pod that selectors read; ``is_leaving`` is true if it was deleted already."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    is_leaving: bool = False


def pod_labels(
    namespace: str, labels: Mapping[str, str] | None, *, is_leaving: bool = False
) -> PodLabels:
    """The labels of a pod, so that pods with equal ones are counted together."""
    return PodLabels(namespace, tuple(sorted((labels or {}).items())), is_leaving)


class PodLabel(NamedTuple):
    """A label that a pod of a namespace has."""

    namespace: str
    key: str
    value: str


class PodLabelIndex:
    """Pods by the labels that somebody asks for; there are few keys by which workloads select."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[PodLabel, set[PodLabels]]] = {}

    def add(self, pod: PodLabels) -> None:
        """There are pods with these labels now."""
        for label in self._known(pod):
            self._pods[label.key].setdefault(label, set()).add(pod)

    def remove(self, pod: PodLabels) -> None:
        """There are no pods with these labels any more."""
        for label in self._known(pod):
            by_label = self._pods[label.key]
            by_label[label].remove(pod)
            if not by_label[label]:
                del by_label[label]

    def forget(self, key: str) -> None:
        """Nobody asks for labels with this key any more."""
        self._pods.pop(key, None)

    def find(self, label: PodLabel, pods: Iterable[PodLabels]) -> Collection[PodLabels]:
        """Those of ``pods``, which are all that were added, that have a label."""
        if label.key not in self._pods:
            self._pods[label.key] = {}
            for pod in pods:
                self.add(pod)
        return self._pods[label.key].get(label, ())

    def _known(self, pod: PodLabels) -> Iterable[PodLabel]:
        for key, value in pod.labels:
            if key in self._pods:
                yield PodLabel(pod.namespace, key, value)
