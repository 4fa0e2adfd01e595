"""Answers of HTTP servers, bounded: one without an end costs no memory. No IO of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator


async def read_body(pieces: AsyncIterator[bytes], most: int) -> bytes:
    """The whole of it.

    Raises:
        ValueError: it is longer than ``most`` bytes.
    """
    found, size = list[bytes](), 0
    async for piece in pieces:
        size += len(piece)
        if size > most:
            raise ValueError(f"longer than {most} bytes")
        found.append(piece)
    return b"".join(found)
