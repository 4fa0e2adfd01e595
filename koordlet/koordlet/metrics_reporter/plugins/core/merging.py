"""Two parts of an object made one: the first owner of a value keeps it. No IO.

Katalyst's agent merges what plugins report by the same names: zones by type and name in every
level, taints by key, effect and level, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEYS: Mapping[str, tuple[str, ...]] = {
    "topologyZone": ("type", "name"),
    "children": ("type", "name"),
    "siblings": ("type", "name"),
    "attributes": ("name",),
    "allocations": ("consumer",),
    "resourcePackages": ("packageName",),
    "resourcePools": ("poolName",),
    "nodeResourceProperties": ("propertyName",),
    "taints": ("key", "effect", "qosLevel"),
    "conditions": ("type",),
}
"""Keys of the items of lists, by the list's name."""


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return both in one, and the paths at which the second wanted another value.

    Neither is changed.
    """
    conflicts: list[str] = []
    return _mappings(first, second, "", conflicts), conflicts


def _mappings(
    first: Mapping[str, Any], second: Mapping[str, Any], path: str, conflicts: list[str]
) -> dict[str, Any]:
    found = dict(first)
    for name, value in second.items():
        there = f"{path}.{name}" if path else name
        found[name] = (
            _values(found[name], value, name, there, conflicts) if name in found else value
        )
    return found


def _values(first: Any, second: Any, name: str, path: str, conflicts: list[str]) -> Any:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return _mappings(first, second, path, conflicts)
    if isinstance(first, list) and isinstance(second, list) and name in _KEYS:
        return _lists(first, second, _KEYS[name], path, conflicts)
    if first != second:
        conflicts.append(path)
    return first


def _lists(
    first: list[Any], second: list[Any], keys: tuple[str, ...], path: str, conflicts: list[str]
) -> list[Any]:
    found = {_key(item, keys): item for item in first}
    for item in second:
        key = _key(item, keys)
        there = f"{path}[{'/'.join(map(str, key))}]"
        found[key] = _mappings(found[key], item, there, conflicts) if key in found else item
    return list(found.values())


def _key(item: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(item.get(key) for key in keys)
