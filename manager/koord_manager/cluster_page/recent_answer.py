"""An answer that is made at most so often, however many ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_WAIT_SECONDS = 6.0
"""For an answer that another request has begun; a little longer than one may take."""


class RecentAnswer:
    """The last result of ``make``, for ``seconds``; threads that ask meanwhile wait for it.

    Nothing is made while nobody asks. ``get`` raises what ``make`` does, and TimeoutError.
    """

    def __init__(
        self,
        make: Callable[[], bytes],
        seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._seconds = seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._until = float("-inf")
        self._answer = b""

    def get(self) -> bytes:
        """Return the answer, made now or lately."""
        if not self._lock.acquire(timeout=_WAIT_SECONDS):
            raise TimeoutError("another request waits for the same")
        try:
            if self._monotonic() >= self._until:
                self._answer = self._make()
                self._until = self._monotonic() + self._seconds
            return self._answer
        finally:
            self._lock.release()
