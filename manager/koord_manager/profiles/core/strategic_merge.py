"""Kubernetes' strategic merge patch: objects merge, and lists whose elements have a key do. No IO.

Which lists those are is not in the patch but in the API's types; ``merge_keys`` has the tables.
The directives are ``$patch`` (delete, replace, merge), ``$retainKeys``, ``$setElementOrder/LIST``
and ``$deleteFromPrimitiveList/LIST``. A ``null`` deletes a field.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from koord_model.fields import shown
from koord_model.json_objects import Object, without

_PATCH, _RETAIN = "$patch", "$retainKeys"
_ORDER, _DELETE = "$setElementOrder/", "$deleteFromPrimitiveList/"
_WORDS = ("merge", "replace", "delete")


@dataclass(frozen=True, slots=True)
class MergeType:
    """Merging fields of a type: by name, its objects' types and its lists.

    A list that is not named here is replaced as a whole. An object that is not named merges too,
    and its lists are replaced.
    """

    objects: Mapping[str, MergeType] = field(default_factory=dict)
    lists: Mapping[str, MergeList] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MergeList:
    """A list that merges: ``key`` is the field that identifies elements, "" for plain values."""

    key: str = ""
    type: MergeType = MergeType()


_PLAIN = MergeType()

Identity = tuple[type, object]
"""An element's own value or its key's; with the type, as 1 is not true in JSON."""

Element = tuple[Identity, Any]


def merged(before: Object, patch: Object, of: MergeType, where: str = "patch") -> Object:
    """The object with the patch applied; neither is changed.

    Raises:
        ValueError: a directive is unknown or does not fit, or an element lacks its key; one
            line says where.
    """
    word = _word(patch, where)
    if word == "delete":
        return {}
    if word == "replace":
        return without(patch, _PATCH)
    result = _retained(before, patch, where)
    for name in _named(patch):
        if name in of.lists:
            found = _merged_list(result.get(name), name, patch, of.lists[name], where)
        elif name not in patch:
            raise ValueError(f"{where} orders or deletes of {shown(name)}, a list that is replaced")
        else:
            deeper = of.objects.get(name, _PLAIN)
            found = _merged_field(result.get(name), patch[name], deeper, f"{where}.{name}")
        if found is None:
            result.pop(name, None)
        else:
            result[name] = found
    return result


def _merged_field(before: Any, given: Any, of: MergeType, where: str) -> Any:
    if not isinstance(given, dict):
        return given
    return merged(before if isinstance(before, dict) else {}, given, of, where)


def _named(patch: Object) -> Iterable[str]:
    """The fields that a patch is about, each once."""
    names: dict[str, None] = {}
    for name in patch:
        if name in (_PATCH, _RETAIN):
            continue
        directive = next((prefix for prefix in (_ORDER, _DELETE) if name.startswith(prefix)), "")
        names[name.removeprefix(directive)] = None
    return names


def _word(patch: Object, where: str) -> str:
    word = patch.get(_PATCH, "merge")
    if word not in _WORDS:
        expected = " or ".join(_WORDS)
        raise ValueError(f"{where}.{_PATCH} is {shown(word)}; expected {expected}")
    return str(word)


def _retained(before: Object, patch: Object, where: str) -> Object:
    """The object with those fields alone that ``$retainKeys`` lists, if it is there."""
    if _RETAIN not in patch:
        return dict(before)
    kept = _list(patch[_RETAIN], f"{where}.{_RETAIN}")
    for name in without(patch, _RETAIN, _PATCH):
        if name not in kept:
            raise ValueError(f"{where}.{_RETAIN} lacks {shown(name)}, which the patch sets")
    return {name: value for name, value in before.items() if name in kept}


def _merged_list(before: Any, name: str, patch: Object, of: MergeList, where: str) -> Any:
    """A list with what the patch has for it: elements, deletions and an order."""
    at = f"{where}.{name}"
    old = before if isinstance(before, list) else []
    deleted = _list(patch.get(_DELETE + name, []), f"{where}.{_DELETE}{name}")
    order = _list(patch.get(_ORDER + name, []), f"{where}.{_ORDER}{name}")
    if name in patch and patch[name] is None:
        return None
    given = _list(patch.get(name, []), at)
    words = [_word(element, at) if isinstance(element, dict) else "merge" for element in given]
    new = [element for element, word in zip(given, words, strict=True) if word == "merge"]
    if "replace" in words:
        return [
            without(element, _PATCH) if isinstance(element, dict) else element for element in new
        ]
    gone = {_identity(element, of.key, at) for element in deleted}
    gone |= {_identity(g, of.key, at) for g, w in zip(given, words, strict=True) if w == "delete"}
    had = [(_identity(element, of.key, at), element) for element in old]
    elements = [pair for pair in had if pair[0] not in gone]
    for element in new:
        _merge_element(elements, (_identity(element, of.key, at), element), of.type, at)
    new_order = [_identity(element, of.key, at) for element in order or new]
    return _ordered(elements, [key for key, _ in had], new_order)


def _merge_element(elements: list[Element], given: Element, of: MergeType, where: str) -> None:
    """Into the first element with its key, as Kubernetes does; two ports may share a number."""
    key, value = given
    at = next(
        (index for index, (element, _) in enumerate(elements) if element == key), len(elements)
    )
    before = elements[at][1] if at < len(elements) else None
    elements[at : at + 1] = [(key, _merged_field(before, value, of, where))]


def _ordered(
    elements: Sequence[Element], had: Sequence[Identity], new_order: Sequence[Identity]
) -> list[Any]:
    """The elements: those of ``new_order`` in that order, and the others in theirs.

    ``had`` is the order before. An element that is not in ``new_order`` comes before the first one
    of it that it preceded. So new elements come first, as those of ``kubectl patch`` do.
    """
    place = {key: index for index, key in reversed(list(enumerate(had)))}
    rank = {key: index for index, key in reversed(list(enumerate(new_order)))}
    first = sorted((pair for pair in elements if pair[0] in rank), key=lambda pair: rank[pair[0]])
    others = deque(pair for pair in elements if pair[0] not in rank)
    result = []
    for key, value in first:
        while others and place.get(others[0][0], len(had)) < place.get(key, -1):
            result.append(others.popleft()[1])
        result.append(value)
    return result + [value for _, value in others]


def _list(given: Any, where: str) -> list[Any]:
    if not isinstance(given, list):
        raise ValueError(f"{where} is {shown(given)}; expected a list")  # noqa: TRY004 - bad input
    return given


def _identity(element: Any, key: str, where: str) -> Identity:
    found = element.get(key) if key and isinstance(element, dict) else None if key else element
    if not isinstance(found, str | int | float):
        what = f"each element with its {key}" if key else "plain values"
        raise ValueError(f"{where} has {shown(element)}; expected {what}")  # noqa: TRY004 - bad input
    return type(found), found
