"""A stream of bytes as lines. No IO."""

from __future__ import annotations

MOST = 64 * 1024 * 1024
"""Bytes; no event of a watch is longer."""


class Lines:
    """Joins pieces to lines; ``rest`` is an incomplete last line."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._rest = bytearray()

    @property
    def rest(self) -> bytes:
        return bytes(self._rest)

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that this completes, without their ends.

        Raises:
            ValueError: a line is longer than ``most``; those before it were returned.
        """
        self._require_short(len(self._rest))
        *whole, last = piece.split(b"\n")
        if whole:
            whole[0] = bytes(self._rest) + whole[0]
            self._rest.clear()
        self._rest += last
        lines = [line for line in whole if line.strip()]
        if not lines:
            self._require_short(len(self._rest))
        return lines

    def _require_short(self, size: int) -> None:
        if size > self._most:
            raise ValueError(f"a line is longer than {self._most} bytes")
