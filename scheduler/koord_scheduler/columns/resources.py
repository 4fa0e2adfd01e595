"""What nodes have and what their pods ask for, by resource. No IO."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from koord_model.keys import CPU, MEMORY
from koord_model.quantity import binary_text, milli_text

from koord_scheduler.columns.arrays import Amounts, heightened, lengthened
from koord_scheduler.objects.requests import HUGE_PAGES

PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
ALWAYS = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""Resources that every node has, and that scores compare though a pod asks for none of them."""
SCORED = {CPU: 0, MEMORY: 1}
"""The columns of ``ResourceColumns.scored``."""

Request = tuple[tuple[int, float], ...]
"""Amounts by the number of their resource; those that are 0 are left out."""


class ResourceColumns:
    """Amounts by resource and row: CPU in millicores, everything else whole.

    ``allocatable[r]`` and ``requested[r]`` are the columns of the resource with number ``r``; those
    behind ``names`` are spare.
    ``scored`` has the requests of CPU and memory that count for scores (``PodRequests``).
    """

    def __init__(self, length: int) -> None:
        self.names: list[str] = [*ALWAYS, PODS]
        self._number_of = {name: number for number, name in enumerate(self.names)}
        self.allocatable: Amounts = np.zeros((len(self.names), length))
        self.requested: Amounts = np.zeros((len(self.names), length))
        self.scored: Amounts = np.zeros((2, length))

    def lengthen(self, length: int) -> None:
        """Make room for more rows, which have nothing yet."""
        self.allocatable = lengthened(self.allocatable, length, 0)
        self.requested = lengthened(self.requested, length, 0)
        self.scored = lengthened(self.scored, length, 0)

    def number(self, name: str) -> int:
        """The number of a resource; a new one if nobody has named it yet."""
        found = self._number_of.get(name)
        if found is None:
            found = self._number_of[name] = len(self.names)
            self.names.append(name)
            self.allocatable = heightened(self.allocatable, len(self.names))
            self.requested = heightened(self.requested, len(self.names))
        return found

    def request(self, amounts: Mapping[str, int]) -> Request:
        """Amounts by number in place of name."""
        numbered = ((self.number(name), float(amount)) for name, amount in amounts.items())
        return tuple(sorted((number, amount) for number, amount in numbered if amount))

    def set_allocatable(self, row: int, amounts: Mapping[str, int]) -> None:
        """What a node has, in place of what it had."""
        numbered = self.request(amounts)
        self.allocatable[:, row] = 0
        for number, amount in numbered:
            self.allocatable[number, row] = amount

    def add(self, row: int, request: Request, scored: tuple[float, float], sign: int = 1) -> None:
        """A pod is on a node, or with -1 for ``sign`` not any more."""
        for number, amount in request:
            self.requested[number, row] += sign * amount
        self.scored[0, row] += sign * scored[0]
        self.scored[1, row] += sign * scored[1]


def quantity_of(resource: str, amount: int) -> str:
    """An amount of ``ResourceColumns`` as a quantity: "500m" of CPU, "1178Mi" of memory, "2"."""
    if resource == CPU:
        return milli_text(amount)
    is_bytes = resource.endswith(("memory", "storage")) or resource.startswith(HUGE_PAGES)
    return binary_text(amount) if is_bytes else str(amount)
