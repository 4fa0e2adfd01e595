"""The different usages of placed pods; most pods are copies of others. No IO."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from koord_scheduler.columns.arrays import Amounts, Codes, heightened, lengthened
from koord_scheduler.columns.nodes import PodUsage

CountOf = int | Callable[[PodUsage], float]
"""What of a pod counts: its request of the resource with this number, or what a function says."""


class UsageTable:
    """Usages by code; the code of a usage that no pod has any more is given to another one."""

    def __init__(self) -> None:
        self._usages: list[PodUsage | None] = []
        self._requests: Amounts = np.zeros((4, 64))
        self._code_of: dict[PodUsage, int] = {}
        self._pods: list[int] = []
        self._free: list[int] = []

    def __getitem__(self, code: int) -> PodUsage:
        usage = self._usages[code]
        if usage is None:
            raise KeyError(code)
        return usage

    def __len__(self) -> int:
        """One more than the highest code."""
        return len(self._usages)

    def add(self, usage: PodUsage) -> int:
        """One more pod has a usage; returns its code."""
        code = self._code_of.get(usage)
        if code is None:
            code = self._code_of[usage] = self._new_code()
            self._usages[code] = usage
            self._set_request(code, usage)
        self._pods[code] += 1
        return code

    def remove(self, code: int) -> None:
        """One pod less has a usage."""
        self._pods[code] -= 1
        if not self._pods[code]:
            del self._code_of[self[code]]
            self._usages[code] = None
            self._free.append(code)

    def amounts(self, of: CountOf, codes: Codes) -> Amounts:
        """What ``of`` counts of the usages with these codes; a function is asked once for each."""
        if isinstance(of, int):
            if of >= len(self._requests):
                return np.zeros(len(codes))
            requests: Amounts = self._requests[of, codes]
            return requests
        table = np.zeros(len(self))
        for code in np.flatnonzero(np.bincount(codes, minlength=len(self))).tolist():
            table[code] = of(self[code])
        return table[codes]

    def _new_code(self) -> int:
        if self._free:
            return self._free.pop()
        self._usages.append(None)
        self._pods.append(0)
        if len(self._usages) > self._requests.shape[1]:
            self._requests = lengthened(self._requests, 2 * len(self._usages), 0)
        return len(self._usages) - 1

    def _set_request(self, code: int, usage: PodUsage) -> None:
        height = 1 + max((number for number, _ in usage.request), default=0)
        self._requests = heightened(self._requests, height)
        self._requests[:, code] = 0
        for number, amount in usage.request:
            self._requests[number, code] = amount
