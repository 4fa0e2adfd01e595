"""Description of a caller, as Kubernetes describes users. No IO."""

from __future__ import annotations

from dataclasses import dataclass

MASTERS = "system:masters"
ANONYMOUS = "system:anonymous"
AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"

Extra = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class User:
    """``extra`` is by key, in the order of keys."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Extra = ()

    def one(self, key: str) -> str:
        """The only value of an extra; "" if there is none, or several."""
        values = dict(self.extra).get(key, ())
        return values[0] if len(values) == 1 else ""
