"""Waiting for what other tasks and programs do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tests.support.processes import PATIENCE

T = TypeVar("T")


async def until(
    condition: Callable[[], Awaitable[T] | T], what: str = "", *, seconds: float = PATIENCE
) -> T:
    """Wait for a condition to become true, and return what it says."""
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        found = condition()
        said: Any = await found if isinstance(found, Awaitable) else found
        if said:
            return said  # type: ignore[no-any-return]
        now = time.monotonic()
        assert now < deadline, f"not within {seconds:g} s: {what or condition}"
        # To look is not to be most of what the machine does.
        await asyncio.sleep(max(0.001, now - began))
