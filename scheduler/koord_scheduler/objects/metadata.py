"""What the scheduler reads of an object's metadata. No IO."""

from __future__ import annotations

import msgspec


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Names and labels; times are RFC 3339."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
