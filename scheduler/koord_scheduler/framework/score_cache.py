"""The scores of the classes that were used last. No IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.held_scores import class_scores
from koord_scheduler.framework.profile import Profile
from koord_scheduler.framework.row_scores import SharedScores
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.lru_cache import LRUCache
from koord_scheduler.state.pod_class import PodClass

MOST_BYTES = 128 << 20
_MOST_ONCE = 10_000
"""Classes that are remembered, and nothing of them."""


_Key = tuple[str, PodClass]
"""A profile by its scheduler name, and a class."""


class ScoreCache:
    """``ClassScores`` by profile and class, as many as ``most_bytes`` hold at about.

    A class is kept once it is asked for again: most classes of a single pod never are.
    """

    def __init__(
        self, nodes: ClusterState, profiles: Mapping[str, Profile], most_bytes: int = MOST_BYTES
    ) -> None:
        self._nodes = nodes
        self._scores: LRUCache[_Key, ClassScores] = LRUCache(most_bytes)
        self._once: OrderedDict[_Key, None] = OrderedDict()
        self._newest: dict[_Key, ClassScores] = {}
        self._profiles = profiles
        self._shared = {
            name: SharedScores(nodes, profile.plugins) for name, profile in profiles.items()
        }

    def get(self, key: _Key) -> ClassScores:
        """The scores of a class of pods of a profile."""
        found = self._scores.get(key)
        if found is None and (found := self._get_new(key)) is None:
            found = self._newest.pop(key, None) or self._make(key)
            self._scores.add(key, found)
        return found

    def known(self, key: _Key) -> ClassScores | None:
        """The scores of a class, if they are there."""
        return self._scores.get(key) or self._newest.get(key)

    def get_once(self, key: _Key) -> ClassScores | None:
        """The scores of a class that was never asked for; else ``None``."""
        return None if key in self._scores else self._get_new(key)

    def forget(self, key: _Key) -> None:
        """Begin anew with a class: a plugin failed half-way."""
        self._scores.remove(key)
        self._newest.pop(key, None)

    def _get_new(self, key: _Key) -> ClassScores | None:
        """The scores of a class that is not known, if it was never asked for."""
        if key in self._once:
            return None
        self._once[key] = None
        if len(self._once) > _MOST_ONCE:
            self._once.popitem(last=False)
        found = self._make(key)
        self._newest = {key: found}
        return found

    def _make(self, key: _Key) -> ClassScores:
        name, pod_class = key
        plugins = self._profiles[name].plugins
        return class_scores(pod_class, self._nodes, plugins, self._shared[name])
