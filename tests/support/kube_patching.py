"""What a patch makes of an object, by the three kinds of patches that clients send.

A strategic merge patch merges lists of objects by the key that their type has, of which a
few are here; all other lists it replaces. The real server refuses it for custom objects.
"""

from __future__ import annotations

from typing import Any

import jsonpatch
import jsonpointer
from koord_kube.protocol.api import Object

from tests.support.kube_json import copied
from tests.support.kube_refusal import Refused, bad_request
from tests.support.merge_patch import merged

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

_KEYS = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "addresses": "type",
    "ownerReferences": "uid",
    "webhooks": "name",
    "imagePullSecrets": "name",
}
"""By which field items of a list are the same."""

_SETS = frozenset({"finalizers"})
"""Lists of texts, to which a patch adds."""


def kinds(custom: bool) -> tuple[str, ...]:
    """The content types that are taken."""
    return (JSON, MERGE) if custom else (JSON, MERGE, STRATEGIC)


def patched(before: Object, patch: Any, content_type: str) -> Object:
    """The object after the patch; the one before is not changed."""
    if content_type == JSON:
        return _json_patched(before, patch)
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: it is not an object")
    if content_type == MERGE:
        found = copied(merged(before, patch))
    else:
        found = copied(strategic(before, patch))
    assert isinstance(found, dict)
    return found


def apply_json_patch(before: Any, patch: Any) -> Any:
    """RFC 6902.

    Raises:
        ValueError: it is no patch, or does not fit.
    """
    try:
        return jsonpatch.apply_patch(before, patch)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
        raise ValueError(str(error)) from None
    except TypeError as error:
        raise ValueError(f"not a JSON patch: {error}") from None


def _json_patched(before: Object, patch: Any) -> Object:
    if not isinstance(patch, list):
        raise bad_request("error decoding patch: it is not a list of operations")
    try:
        found = apply_json_patch(before, patch)
    except ValueError as error:
        message = "the server rejected our request due to an error in our request"
        raise Refused(422, "Invalid", message) from error
    if not isinstance(found, dict):
        raise bad_request("the patch does not leave an object")
    return found


def strategic(target: Any, patch: Any, name: str = "") -> Any:
    """The value after a strategic merge patch; neither is changed."""
    if isinstance(patch, list):
        return _merged_list(target if isinstance(target, list) else [], patch, name)
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    found = {} if patch.get("$patch") == "delete" or not isinstance(target, dict) else dict(target)
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            found[field] = [one for one in found.get(field) or [] if one not in value]
        elif key.startswith("$"):  # The order, and what others are retained: nothing to do.
            continue
        elif value is None:
            found.pop(key, None)
        else:
            found[key] = strategic(found.get(key), value, key)
    return found


def _merged_list(target: list[Any], patch: list[Any], name: str) -> list[Any]:
    if name in _SETS:
        return [*target, *(one for one in patch if one not in target)]
    key = _KEYS.get(name)
    if key is None or not all(isinstance(one, dict) for one in patch):
        return patch
    found = list(target)
    for one in patch:
        if one == {"$patch": "replace"}:
            return [each for each in patch if each != one]
        if key not in one:
            raise bad_request(f"map: {one} does not contain declared merge key: {key}")
        at = next((i for i, each in enumerate(found) if each.get(key) == one[key]), None)
        if one.get("$patch") == "delete":
            found = [each for each in found if each.get(key) != one[key]]
        elif at is None:
            found.append(strategic({}, one))
        else:
            found[at] = strategic(found[at], one)
    return found
