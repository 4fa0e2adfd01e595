"""One object for each Node, of its name and gone with it: what has to be written. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from koord_kube.protocol.resources import Resource

from koord_manager.node_objects.core.nodes import ClusterNode, Object


class _Meta(msgspec.Struct, frozen=True):
    uid: str = ""
    owners: list[Object] | None = msgspec.field(default=None, name="ownerReferences")


class _ExistingJson(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


_EXISTING = msgspec.json.Decoder(_ExistingJson)
_SPEC = msgspec.json.Decoder(Object | None)


@dataclass(frozen=True, slots=True)
class ExistingObject:
    """An object as the API has it: all that counts here. ``spec`` is JSON, which is small."""

    uid: str
    owners: tuple[Object, ...] = ()
    spec: bytes = b"{}"

    def decoded(self) -> Object:
        """The spec."""
        return _SPEC.decode(self.spec) or {}


def decode_object(raw: bytes) -> ExistingObject:
    """Decode an object.

    Raises:
        msgspec.MsgspecError: it is not an object.
    """
    found = _EXISTING.decode(raw)
    # A copy: a part of the text would keep all of it in memory.
    return ExistingObject(found.metadata.uid, tuple(found.metadata.owners or ()), bytes(found.spec))


@dataclass(frozen=True, slots=True)
class CreateObject:
    """Write an object that is not there."""

    object: Object


@dataclass(frozen=True, slots=True)
class PatchObject:
    """Write these fields of one that is; a merge patch, for the object with this ``uid`` alone."""

    change: Object


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Take it away, if it still has this ``uid``."""

    uid: str


Write = CreateObject | PatchObject | DeleteObject


def write_for(
    resource: Resource, node: ClusterNode | None, there: ExistingObject | None, spec: Object
) -> Write | None:
    """Return the write that makes a Node's object as desired; ``None`` if none is needed.

    Without its Node it is deleted. It is owned by its Node, so that it goes with it also
    while no manager runs.
    """
    if node is None:
        return DeleteObject(there.uid) if there else None
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
    if there is None:
        return CreateObject(
            {
                "apiVersion": f"{resource.group}/{resource.version}",
                "kind": resource.kind,
                "metadata": {"name": node.name, "ownerReferences": [owner]},
                "spec": spec,
            }
        )
    change: Object = {}
    if owner not in there.owners:
        others = [owner for owner in there.owners if owner.get("kind") != "Node"]
        change["metadata"] = {"ownerReferences": [*others, owner]}
    difference = merge_patch(there.decoded(), spec)
    if difference:
        change["spec"] = difference
    if not change:
        return None
    change.setdefault("metadata", {})["uid"] = there.uid
    return PatchObject(change)


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Object:
    """The JSON merge patch (RFC 7386) from one object to another; neither has ``null`` in it."""
    patch: Object = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        known = before.get(name)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            inside = merge_patch(known, value)
            if inside:
                patch[name] = inside
        elif name not in before or not _same(known, value):
            patch[name] = value
    return patch


def _same(value: object, other: object) -> bool:
    """True if two values are the same JSON; in Python ``True`` is 1."""
    return value == other and msgspec.json.encode(value) == msgspec.json.encode(other)
