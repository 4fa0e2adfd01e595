"""Source of the list of pods, as its user sees it."""

from __future__ import annotations

from typing import Protocol


class PodListPendingError(OSError):
    """There is no list yet, as expected: not an error."""


class PodSource(Protocol):
    """Source of the list of pods; ``name`` is for people."""

    name: str

    async def pods(self) -> bytes:
        """A v1 PodList in JSON.

        Raises:
            OSError: it cannot be had; the message says from where and why.
        """
        ...

    async def close(self) -> None:
        """Let go of what is open."""
        ...
