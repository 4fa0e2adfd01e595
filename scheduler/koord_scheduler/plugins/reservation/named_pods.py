"""The pods that reservations name, found without a look at all reservations. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from koord_scheduler.plugins.reservation.owners import OwnerMatcher


class NamedPod(NamedTuple):
    """Reference of a reservation to a pod; "" stands for any."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """The key of the only pod that it may be; "" if there may be others."""
        return f"{self.namespace}/{self.name}" if self.namespace and self.name else ""

    def means(self, namespace: str, name: str, uid: str) -> bool:
        """Return whether it is this pod."""
        return (
            self.name in ("", name) and self.namespace in ("", namespace) and self.uid in ("", uid)
        )


class NamedPods:
    """Names of pods, and how many reservations name them so."""

    def __init__(self) -> None:
        self._number: Counter[NamedPod] = Counter()
        self._changed: set[NamedPod] = set()

    def add(self, matchers: Iterable[OwnerMatcher], sign: int = 1) -> None:
        """A reservation with these owners is there, or with -1 for ``sign`` not any more."""
        for one in (matcher.named for matcher in matchers):
            if one is None:
                continue
            named = NamedPod(one.namespace, one.name, one.uid)
            self._number[named] += sign
            if self._number[named] in (0, sign):  # the first one, or the last
                self._changed.add(named)
            if not self._number[named]:
                del self._number[named]

    def has(self, namespace: str, name: str, uid: str) -> bool:
        """Return whether a reservation names this pod."""
        parts = product({namespace, ""}, {name, ""}, {uid, ""})
        return bool(self._number) and any(NamedPod(*part) in self._number for part in parts)

    def take_changed(self) -> set[NamedPod]:
        """The names that were given or taken away since the last call."""
        found, self._changed = self._changed, set()
        return found
