"""Annotations of objects: those that some feature reads, and no others. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

_READ: set[str] = set()
_ASKING: set[str] = set()
_GRANTED: set[str] = set()
_APART: set[str] = set()


def read_annotations(*keys: str) -> None:
    """Have annotations with these keys read from now on, of pods and of all other objects.

    A feature calls it where its module is loaded.
    """
    _READ.update(keys)


def read_annotations_of_room(asking: Iterable[str], granted: Iterable[str]) -> None:
    """The same for annotations about room that can be shared out.

    With the first a pod asks for more than amounts; the others say what it was given.
    """
    _ASKING.update(asking)
    _GRANTED.update(granted)
    _READ.update(_ASKING | _GRANTED)


def read_annotation_apart(key: str) -> None:
    """Have an annotation read that does not decide where pods run: equal pods stay equal."""
    _APART.add(key)


class Annotations(dict[str, str]):
    """Annotations by their keys; those read ``apart`` are no part of what is compared."""

    apart: Mapping[str, str] = MappingProxyType({})


NO_ANNOTATIONS = Annotations()


def annotations_of_room(own: Annotations, described: Annotations) -> Annotations:
    """Annotations of an object's demands and allocations, and of the pod that it describes."""
    asked = {key: described[key] for key in _ASKING & described.keys()}
    return Annotations(asked | {key: own[key] for key in (_ASKING | _GRANTED) & own.keys()})


def without_granted(own: Annotations) -> Annotations:
    """Annotations of an object to which nothing was given yet."""
    return Annotations({key: text for key, text in own.items() if key not in _GRANTED})


def decode_hook(kind: type, given: Any) -> Any:
    """The annotations that are read, for decoders of msgspec.

    Raises:
        ValueError: one of them is no text.
    """
    if kind is not Annotations:
        raise NotImplementedError(kind)
    found = {key: given[key] for key in sorted(_READ & given.keys())}
    for key, text in found.items():
        if not isinstance(text, str):
            raise ValueError(f"annotation {key} is no text")  # noqa: TRY004 - msgspec's own
    annotations = Annotations(found)
    if _APART and (apart := {key: given[key] for key in _APART & given.keys()}):
        annotations.apart = apart
    return annotations
