"""What the scheduler reads of an object's metadata. No IO."""

from __future__ import annotations

import msgspec


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
