"""Parts that features know of pods, in one value that is compared and hashed as a whole. No IO."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class PodPart(Generic[T]):
    """A feature's part of pods: of a class of them, or of what one takes of its node.

    ``nothing`` is that of pods that do not concern the feature. Where it can be shared out,
    ``left`` computes what remains of a part beside those that some pods have of it. With a part
    that is ``beyond_amounts`` a class asks a node for more than amounts.
    """

    __slots__ = ("beyond_amounts", "left", "name", "nothing")

    def __init__(
        self,
        name: str,
        nothing: T,
        left: Callable[[T, Sequence[T]], T] | None = None,
        *,
        beyond_amounts: bool = False,
    ) -> None:
        self.name = name
        self.nothing = nothing
        self.left = left
        self.beyond_amounts = beyond_amounts

    def __repr__(self) -> str:
        return f"PodPart({self.name})"


class PodParts:
    """Parts by their keys, those that say something; equal where all of them are."""

    __slots__ = ("_hash", "by_key")

    def __init__(self, parts: Iterable[tuple[PodPart[Any], Any]] = ()) -> None:
        self.by_key: Mapping[PodPart[Any], Any] = {
            key: value for key, value in parts if value != key.nothing
        }
        self._hash: int | None = None

    def of(self, key: PodPart[T]) -> T:
        """A feature's part."""
        found: T = self.by_key.get(key, key.nothing)
        return found

    def with_part(self, key: PodPart[T], value: T) -> PodParts:
        """The same with another one of this key."""
        return PodParts({**self.by_key, key: value}.items())

    def shared(self) -> Iterator[tuple[PodPart[Any], Any]]:
        """Those that can be shared out."""
        return ((key, value) for key, value in self.by_key.items() if key.left is not None)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, PodParts) and self.by_key == other.by_key

    def __hash__(self) -> int:
        if self._hash is None:  # classes and usages are looked up for each pod
            self._hash = hash(frozenset(self.by_key.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"PodParts({ {key.name: value for key, value in self.by_key.items()} })"


NO_PARTS = PodParts()
