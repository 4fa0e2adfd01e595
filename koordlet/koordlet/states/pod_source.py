"""The list of pods in a file, for nodes without a kubelet that can be asked."""

from __future__ import annotations

import asyncio
from pathlib import Path


class PodFile:
    """A v1 PodList in JSON at the path ``name``."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def pods(self) -> bytes:
        """The list's JSON.

        Raises:
            OSError: it cannot be read; the message says why.
        """
        try:
            return await asyncio.to_thread(Path(self.name).read_bytes)
        except OSError as error:
            raise OSError(f"{self.name}: {error.strerror}") from None
