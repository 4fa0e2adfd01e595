"""How this machine keeps those waiting who have next to nothing to do."""

from __future__ import annotations

import threading
import time
from typing import Self

_TICK = 0.05


class Stalls:
    """While entered, a thread wants to run now and then; ``longest`` is by how much it was late.

    Whoever looks at something every second was late by no less.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _tick(self) -> None:
        while True:
            began = time.monotonic()
            over = self._over.wait(_TICK)
            self.longest = max(self.longest, time.monotonic() - began - _TICK)
            if over:
                return
