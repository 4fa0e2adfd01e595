"""Difference between two states of an object, as a JSON Patch (RFC 6902). No IO.

Lists are compared place by place: what grew or shrank did so at the end. What is the very same
object before and after is not looked into, so that a patch costs what changed.
"""

from __future__ import annotations

from typing import Any

Operation = dict[str, Any]


def patch(before: Any, after: Any) -> list[Operation]:
    """The operations that make ``after`` of ``before``; none where they are equal."""
    found: list[Operation] = []
    _compare(before, after, "", found)
    return found


def _compare(before: Any, after: Any, path: str, found: list[Operation]) -> None:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        _objects(before, after, path, found)
    elif isinstance(before, list) and isinstance(after, list):
        _lists(before, after, path, found)
    elif type(before) is not type(after) or before != after:
        found.append({"op": "replace", "path": path, "value": after})


def _objects(
    before: dict[str, Any], after: dict[str, Any], path: str, found: list[Operation]
) -> None:
    for name, value in before.items():
        at = f"{path}/{_escaped(name)}"
        if name in after:
            _compare(value, after[name], at, found)
        else:
            found.append({"op": "remove", "path": at})
    for name, value in after.items():
        if name not in before:
            found.append({"op": "add", "path": f"{path}/{_escaped(name)}", "value": value})


def _lists(before: list[Any], after: list[Any], path: str, found: list[Operation]) -> None:
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        _compare(old, new, f"{path}/{index}", found)
    gone = range(len(before) - 1, len(after) - 1, -1)
    found.extend({"op": "remove", "path": f"{path}/{index}"} for index in gone)
    found.extend({"op": "add", "path": f"{path}/-", "value": new} for new in after[len(before) :])


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
