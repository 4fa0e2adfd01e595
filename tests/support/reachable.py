"""What a program holds: every container that can be reached from an object, and how full it is."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter, deque
from types import FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

_CONTAINERS = (dict, list, set, deque)
_ELSEWHERE = (type, ModuleType, FrameType, asyncio.AbstractEventLoop, asyncio.Task)
"""Not the program's: an event loop leads to whoever looks."""


class Holdings:
    """A look at all that is reachable; ``sizes`` by container, ``count`` of objects by type.

    Containers are kept alive, so that a later look can find them again.
    """

    def __init__(self, *roots: object) -> None:
        self.count: Counter[str] = Counter()
        self.bytes = 0
        self._containers: dict[int, Any] = {}
        self._sizes: dict[int, int] = {}
        self._paths: dict[int, str] = {}
        self._walk(roots)

    def grown(self, later: Holdings, by: float = 1.2, more: int = 60) -> list[str]:
        """Containers and types of which there is clearly more in a later look."""
        found = [
            f"{later._paths[key]}: {size} → {later._sizes[key]}"
            for key, size in self._sizes.items()
            if key in later._sizes and later._sizes[key] > by * size + more
        ]
        return found + [
            f"{name}: {self.count[name]} → {count} objects"
            for name, count in later.count.items()
            if count > by * self.count[name] + 5 * more
        ]

    def _walk(self, roots: tuple[object, ...]) -> None:
        seen: set[int] = set()
        waiting: deque[tuple[Any, str]] = deque((one, type(one).__name__) for one in roots)
        while waiting:
            one, path = waiting.popleft()
            if id(one) in seen or isinstance(one, (*_ELSEWHERE, Holdings)):
                continue
            seen.add(id(one))
            self.count[type(one).__name__] += 1
            self.bytes += one.nbytes if isinstance(one, np.ndarray) else sys.getsizeof(one)
            if isinstance(one, _CONTAINERS):
                self._containers[id(one)] = one
                self._sizes[id(one)] = len(one)
                self._paths[id(one)] = path
            for inner in _inside(one):
                if gc.is_tracked(inner) or isinstance(inner, (*_CONTAINERS, np.ndarray, tuple)):
                    waiting.append((inner, _longer(path, one, inner)))


def _inside(one: object) -> list[Any]:
    """What an object holds; of a function not the whole module that it is in."""
    if isinstance(one, FunctionType):
        return [*(one.__closure__ or ()), *(one.__defaults__ or ()), one.__dict__]
    # Since Python 3.11 an object has its dictionary when somebody asks for it. A first look that
    # asked only for names would make them all, and the second find hundreds more.
    getattr(one, "__dict__", None)
    return gc.get_referents(one)


def _longer(path: str, one: Any, inner: Any) -> str:
    """The path by attributes; what is in containers has that of the container."""
    names = getattr(one, "__dict__", {})
    name = next((name for name, value in names.items() if value is inner), "")
    if not name:
        slots = (slot for kind in type(one).__mro__ for slot in getattr(kind, "__slots__", ()))
        name = next((slot for slot in slots if getattr(one, slot, None) is inner), "")
    if not name and isinstance(one, dict):
        name = next((f"[{key!r}]" for key, value in one.items() if value is inner), "")[:60]
    return f"{path}.{name}" if name else path
