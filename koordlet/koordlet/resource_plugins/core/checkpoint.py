"""The file of allocations, as bytes. No IO."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from koord_model.allocation import Allocations, ResourceAllocation

MOST_BYTES = 8 << 20
"""Of the file: 110 pods with three containers and four resources have 400 KiB."""
_FORMAT = "pykoord resource allocations 1"


class SavedPlugin(msgspec.Struct, frozen=True):
    """A plugin that registered itself, and will not do so again when koordlet restarts."""

    endpoint: str
    aligned: bool = False
    reconciled: bool = False


class SavedAllocations(msgspec.Struct, frozen=True):
    """All that is kept over a restart: plugins by resource, allocations."""

    plugins: Mapping[str, SavedPlugin] = {}
    allocations: dict[str, dict[str, dict[str, ResourceAllocation]]] = {}


class _File(SavedAllocations, frozen=True):
    format: str = ""


_DECODER = msgspec.json.Decoder(_File)


def encode(plugins: Mapping[str, SavedPlugin], allocations: Allocations) -> bytes:
    """The file's content.

    Raises:
        ValueError: it is too large.
    """
    text = msgspec.json.encode({"format": _FORMAT, "plugins": plugins, "allocations": allocations})
    if len(text) > MOST_BYTES:
        raise ValueError(f"has {len(text)} bytes; at most {MOST_BYTES} are kept")
    return text


def decode(text: bytes) -> SavedAllocations:
    """The file's content.

    Raises:
        ValueError: it is none of ours, or not whole; the message says how.
    """
    if len(text) > MOST_BYTES:
        raise ValueError(f"has more than {MOST_BYTES} bytes")
    try:
        found = _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"is not a file of allocations: {error}") from None
    if found.format != _FORMAT:
        raise ValueError(f'is not a file of allocations: its format is not "{_FORMAT}"')
    return found
