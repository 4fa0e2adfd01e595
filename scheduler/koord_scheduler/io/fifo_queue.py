"""Hands work to tasks that wait for it."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class FifoQueue(Generic[T]):
    """Items in order, ``most`` at a time: beyond these the oldest are dropped.

    A stream of anyio's gives the loop a turn with each item; here one that waits is taken at once.
    """

    def __init__(self, most: int | None = None) -> None:
        self._items: deque[T] = deque(maxlen=most)
        self._idle: deque[anyio.Event] = deque()
        self.dropped = 0
        """Items that nobody will get."""

    def put(self, item: T) -> None:
        """Hand an item to one of those that wait for one, or to who comes next."""
        if len(self._items) == self._items.maxlen:
            self.dropped += 1
        self._items.append(item)
        if self._idle:
            self._idle.popleft().set()

    async def get(self) -> T:
        """The oldest item, once there is one."""
        while not self._items:
            news = anyio.Event()
            self._idle.append(news)
            await news.wait()
        return self._items.popleft()
