"""Profiles that match a pod or a reservation, and the draw of their chances. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from koord_model.excerpt import excerpt
from koord_model.json_objects import Object
from koord_model.label_selector import LabelSelector

from koord_manager.profiles.core.document import ColocationProfile, Texts, read

_EVERYTHING = LabelSelector()


@dataclass(frozen=True, slots=True)
class MatchingProfiles:
    """The profiles that match an object, by name, and lines on those that cannot be matched."""

    profiles: tuple[ColocationProfile, ...]
    warnings: tuple[str, ...] = ()


class _Version:
    """A document compared by identity: documents are replaced, never changed."""

    __slots__ = ("document", "name")

    def __init__(self, name: str, document: Object) -> None:
        self.name = name
        self.document = document

    def __hash__(self) -> int:
        return id(self.document)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Version) and self.document is other.document


def read_all(documents: Mapping[str, Object]) -> tuple[ColocationProfile, ...]:
    """The profiles in their order: by name."""
    return tuple(_read(_Version(name, documents[name])) for name in sorted(documents))


@lru_cache(maxsize=1024)
def _read(version: _Version) -> ColocationProfile:
    return read(version.name, version.document)


def for_labels(profiles: Iterable[ColocationProfile], labels: Texts) -> MatchingProfiles:
    """Those for what has these labels, in whatever namespace or in none."""
    given = tuple(profiles)
    found = tuple(
        profile for profile in given if profile.usable and profile.selector.matches(labels)
    )
    return MatchingProfiles(
        found, tuple(line for profile in given if not profile.usable for line in profile.ignored)
    )


def for_pod(
    profiles: Iterable[ColocationProfile],
    labels: Texts,
    namespace: str,
    namespace_labels: Texts | None,
) -> MatchingProfiles:
    """Those for a pod; ``namespace_labels`` is ``None`` where the namespace is not known yet.

    A profile that selects namespaces is not for a pod in one that is not known.
    """
    matches = for_labels(profiles, labels)
    known = namespace_labels or {}
    unsure = tuple(
        f"ClusterColocationProfile {excerpt(profile.name)} is left out: "
        f"namespace {excerpt(namespace)} is not known yet; create the pod again in a moment"
        for profile in matches.profiles
        if namespace_labels is None and profile.namespaces != _EVERYTHING
    )
    found = tuple(
        profile
        for profile in matches.profiles
        if profile.namespaces == _EVERYTHING
        or (namespace_labels is not None and profile.namespaces.matches(known))
    )
    return MatchingProfiles(found, matches.warnings + unsure)


def drawn(profile: ColocationProfile, chance: Callable[[], float]) -> bool:
    """True if the profile has its chance this time: in ``percent`` of a hundred it has."""
    return chance() * 100 < profile.percent
