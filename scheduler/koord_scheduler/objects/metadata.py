"""What the scheduler reads of an object's metadata. No IO."""

from __future__ import annotations

import msgspec


class OwnerReference(msgspec.Struct, frozen=True, gc=False):
    """What an object belongs to; ``controller`` says whether that manages it."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Names, labels and annotations; times are RFC 3339."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
