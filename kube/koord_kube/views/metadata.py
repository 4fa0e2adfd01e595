"""The part common to all objects, of which most readers need little. No IO."""

from __future__ import annotations

import msgspec


class ObjectName(msgspec.Struct, frozen=True):
    """An object's name and namespace, and its version."""

    name: str = ""
    namespace: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")

    @property
    def key(self) -> str:
        """The name, or namespace/name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class NamedObject(msgspec.Struct, frozen=True):
    """An object without all else that it has."""

    metadata: ObjectName = ObjectName()


class OwnerReference(msgspec.Struct):
    """Owner of an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    api_version: str = msgspec.field(default="", name="apiVersion")


decode_named = msgspec.json.Decoder(NamedObject).decode


def read_resource_version(raw: bytes) -> str:
    """Decode no more than whether an object has changed: the rest of it may be secret."""
    return decode_named(raw).metadata.version
