"""The scores of the classes that were used last. No IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.profile import Profile

MOST_BYTES = 64 << 20
_FEWEST = 16


class ScoreCache:
    """``ClassScores`` by profile and class, as many as ``most_bytes`` hold at about."""

    def __init__(
        self, nodes: NodeColumns, profiles: Iterable[Profile], most_bytes: int = MOST_BYTES
    ) -> None:
        self._nodes = nodes
        self._most_bytes = most_bytes
        self._scores: OrderedDict[tuple[str, PodClass], ClassScores] = OrderedDict()
        self.profiles: Mapping[str, Profile] = {one.scheduler_name: one for one in profiles}

    def get(self, scheduler_name: str, pod_class: PodClass) -> ClassScores:
        """The scores of a class of pods of a profile."""
        key = scheduler_name, pod_class
        found = self._scores.get(key)
        if found is not None:
            self._scores.move_to_end(key)
            return found
        plugins = self.profiles[scheduler_name].plugins
        made = self._scores[key] = ClassScores(pod_class, self._nodes, plugins)
        if len(self._scores) > _FEWEST and self._size() > self._most_bytes:
            self._scores.popitem(last=False)
        return made

    def forget(self, scheduler_name: str, pod_class: PodClass) -> None:
        """Begin anew with a class: a plugin failed half-way."""
        self._scores.pop((scheduler_name, pod_class), None)

    def _size(self) -> int:
        """As much for each as what was not used for longest keeps."""
        return next(iter(self._scores.values())).size * len(self._scores)
