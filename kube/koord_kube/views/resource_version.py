"""The version of an object, and nothing else of it: the rest may be secret, or large. No IO."""

from __future__ import annotations

import msgspec


class _Meta(msgspec.Struct, frozen=True):
    version: str = msgspec.field(default="", name="resourceVersion")


class _Versioned(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


_VERSIONED = msgspec.json.Decoder(_Versioned)


def read_resource_version(raw: bytes) -> str:
    """Decode an informer's view for those who only have to know that an object changed."""
    return _VERSIONED.decode(raw).metadata.version
